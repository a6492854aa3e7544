"""Kills and stops: at random instants, at every write, in every phase of a command."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from experiments.torture.runs import SAMPLERS, Runs, disturbed, started, tell

PHASES = {  # where a signal comes, and at which call
    "fit": [("import:pandas", 1), ("reading", 1), ("compiling", 2), ("sampling", 3), ("writing", 3), ("renaming", 2),
            ("reporting", 1)],
    "update": [("import:jax", 1), ("reading", 1), ("compiling", 1), ("sampling", 2), ("writing", 2), ("pruning", 1),
               ("reporting", 1)],
    "watch": [("import:seqgp.cli.watching", 1), ("waiting", 1), ("reading", 1), ("sampling", 2), ("writing", 2),
              ("pruning", 1), ("reporting", 1), ("waiting", 5)],
}  # fmt: skip


def killed_at_random(runs: Runs, sampler: str) -> tuple[int, int]:
    """SIGKILL at a random instant of `update`, half as often again as the size; then the command is given again."""
    tries = (3 * runs.size + 1) // 2
    seconds, held = _duration(runs, sampler), 0
    for _ in range(tries):
        run = runs.copy(sampler)
        arguments = ("update", run, run.parent / "more.csv", "--skip-seen")
        process = started(*arguments)
        time.sleep(runs.rng.uniform(0.3, 1.0) * seconds)
        process.kill()
        _, said = process.communicate()
        again = runs.resumed(run, sampler, *arguments)
        held += again
        if not again:
            tell(f"update of {sampler}", process.returncode, said, again)
    return tries, held


def killed_at_writes(runs: Runs, sampler: str) -> tuple[int, int]:
    """SIGKILL as each call begins that changes a file, in a `fit` from nothing and an `update`; the short form: two."""
    tried = held = 0
    for command in ("fit", "update"):
        one, whole = _killed_at_each_write(runs, sampler, sampler, command)
        tried, held = tried + one, held + whole
    return tried, held


def revised_and_killed(runs: Runs) -> tuple[int, int]:
    """SIGKILL as each call begins that changes a file, in an `update` with late and corrected rows."""
    return _killed_at_each_write(runs, "online", "late", "late")


def _killed_at_each_write(runs: Runs, sampler: str, expected: str, command: str) -> tuple[int, int]:
    tried = held = 0
    calls = int(disturbed("writes", 0, "SIGKILL", *_arguments(command, _begun(runs, command, sampler)))[1].split()[-1])
    numbers = range(1, calls + 1) if runs.size >= 10 else {calls // 2}
    for number in numbers:
        run = _begun(runs, command, sampler)
        code, _, said = disturbed("writes", number, "SIGKILL", *_arguments(command, run))
        again = runs.resumed(run, expected, *_arguments(command, run))
        if code == 0 and again:  # fewer calls than before: what compiled quickly this time stays out of the cache
            continue
        right = code == -signal.SIGKILL and again
        tried, held = tried + 1, held + right
        if not right:
            tell(f"{command} of {sampler}, write {number} of {calls}", code, said, again)
    return tried, held


def stopped_in_phases(runs: Runs, which: str) -> tuple[int, int]:
    """A signal that asks to stop, in every phase of `fit`, `update` and `watch`; the short form: one of each."""
    number, tried, held = int(getattr(signal, which)), 0, 0
    for command, phases in PHASES.items():
        for i, (where, call) in enumerate(phases if runs.size >= 10 else phases[3:4]):
            sampler = list(SAMPLERS)[i % 2]
            run = _begun(runs, command, sampler)
            code, _, said = disturbed(where, call, which, *_arguments(command, run))
            # In `watch` a stop is how it ends, and one that comes when all is on disk has nothing to stop; before a
            # command begins, Python's own answer to the signal will do.
            done = command == "watch" or where == "reporting"
            quiet = code in (128 + number, -number, *([0] if done else [])) and "Traceback" not in said
            then = _arguments("update" if command == "watch" else command, run)
            again = runs.resumed(run, sampler, *then)
            tried, held = tried + 1, held + (quiet and again)
            if not (quiet and again):
                tell(f"{which} in {command} of {sampler}, {where} {call}", code, said, again)
    return tried, held


def _begun(runs: Runs, command: str, sampler: str) -> Path:
    run = runs.copy(sampler, begun=command != "fit")
    if command == "watch":
        inbox = run.parent / "inbox"
        inbox.mkdir()
        (inbox / "more.csv").write_bytes((run.parent / "more.csv").read_bytes())
    return run


def _arguments(command: str, run: Path) -> tuple[object, ...]:
    if command == "fit":
        return "fit", run.parent / "config.toml"
    if command == "watch":
        return "watch", run, run.parent / "inbox", "--interval", "0.05"
    return "update", run, run.parent / ("late.csv" if command == "late" else "more.csv"), "--skip-seen"


def _duration(runs: Runs, sampler: str) -> float:
    """Of an undisturbed update, compiled code on disk."""
    run = runs.copy(sampler)
    begun = time.monotonic()
    started("update", run, run.parent / "more.csv").communicate()
    return time.monotonic() - begun
