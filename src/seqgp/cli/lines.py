"""One line for each step of a command that samples, where no progress bar can be shown; and what revisions changed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from seqgp.base.info import Info
from seqgp.io.timestamps import moment_text
from seqgp.samplers.base import State


class StepLines:
    """A callback of ``run``: prints a line for each step to standard error, unless that is a terminal.

    Args:
        data: the section ``[data]`` of the run's configuration, for dates.
        quiet: whether nothing is printed, as where the result is for machines.
    """

    def __init__(self, data: Mapping[str, object], quiet: bool = False):
        self._data, self._quiet = data, quiet
        self.infos: list[Info] = []

    def __call__(self, state: State, info: Info) -> None:
        """Print the line of a step."""
        self.infos.append(info)
        if self._quiet or sys.stderr is None or sys.stderr.isatty():
            return
        what = f" ({revised(info.extras)})" if is_revision(info) else ""
        when = moment_text(info.t, self._data)
        print(f"step {info.step}, {when}: {info.seconds:.2f} s, {info.health}{what}", file=sys.stderr, flush=True)

    def begin(self, quiet: bool) -> None:
        """Forget the steps so far."""
        self.infos, self._quiet = [], quiet


def is_revision(info: Info) -> bool:
    """Whether the step took late or corrected data."""
    return "retracted" in info.extras


def revised(found: dict[str, Any]) -> str:
    """What a step put into the past, and how far that moved the state, in words, from the extras of its info."""
    kinds = (("added", "added"), ("replaced", "corrected"), ("retracted", "retracted"))
    counts = [f"{found[name]} {word}" for name, word in kinds if found[name]]
    total = sum(found[name] for name, _ in kinds)
    moved = f"the last state moved by up to {found['moved']:.2g} of its standard deviation"
    if "moved_parameters" in found:
        moved += f", the parameters by {found['moved_parameters']:.2g}"
    return f"late data for {total} time{'s' * (total > 1)} ({', '.join(counts)}): {moved}"
