"""A command of seqgp that is sent a signal at a chosen moment: ``python -m experiments.torture.disturbed``.

Arguments: where (a name from `PLACES`, ``writes``, or ``import:MODULE``), at which call, which signal, and the command.
The signal comes as the call begins. At call 0 nothing is sent, and the last line on standard output is the number of
calls there were.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

PLACES = {
    "reading": tuple(f"seqgp.{module}.snapshots_from" for module in ("io.configured", "cli.fitting", "cli.watching")),
    "compiling": ("seqgp.runtime.engine._cached",),
    "sampling": ("jax.block_until_ready",),
    "writing": ("os.fsync",),
    "renaming": ("os.replace",),
    "pruning": ("seqgp.io.step.Step.shrink",),
    "waiting": ("seqgp.runtime.stopping.pause",),
    "reporting": ("seqgp.cli.fitting.report_run", "seqgp.cli.watching.report_run"),
    "writes": ("os.mkdir", "os.fsync", "os.chmod", "os.replace", "os.rename", "os.unlink"),
}


class Trigger:
    """Counts calls, and sends the signal at one of them."""

    def __init__(self, number: int, which: int):
        self.number, self.which, self.calls = number, which, 0

    def pull(self) -> None:
        """One more call."""
        self.calls += 1
        if self.calls == self.number:
            os.kill(os.getpid(), self.which)

    def wrap(self, path: str) -> None:
        """Replace what stands at a dotted path by one that counts first."""
        owner_path, _, name = path.rpartition(".")
        owner = _resolved(owner_path)
        function = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.pull()
            return function(*args, **kwargs)

        setattr(owner, name, counted)


class Importing:
    """A finder that finds nothing, and pulls the trigger when a module is looked for."""

    def __init__(self, module: str, trigger: Trigger):
        self.module, self.trigger = module, trigger

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called by the import system."""
        if name == self.module:
            self.trigger.pull()


def _resolved(path: str) -> Any:
    """A module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def main() -> None:
    """Set the trigger, and run the command."""
    where, number, which, *command = sys.argv[1:]
    trigger = Trigger(int(number), int(getattr(signal, which)))
    if where.startswith("import:"):
        sys.meta_path.insert(0, Importing(where.partition(":")[2], trigger))  # pyright: ignore[reportArgumentType]
    else:
        for path in PLACES[where]:
            trigger.wrap(path)
    from seqgp.cli import main as seqgp

    try:
        seqgp(command)
    finally:
        if trigger.number == 0:
            print(trigger.calls, flush=True)


if __name__ == "__main__":
    main()
