"""A progress bar that shows t, seconds per step, the least ESS and the largest R-hat; quiet without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from seqgp.base.info import Info

Progress = Callable[[float], None]  # called with the share of a step that is done


class ProgressBar:
    """One bar per run; it fills anew with each step."""

    def __init__(self, show: bool | None = None):
        wanted = sys.stderr.isatty() if show is None else show
        self._progress: RichProgress | None = None
        self._task: TaskID | None = None
        if wanted:
            self._progress = _bar()

    def __enter__(self) -> ProgressBar:
        """Show the bar."""
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=1.0, t=float("nan"), last="compiling")
        return self

    def __exit__(self, *exception) -> None:
        """Leave the bar as it is."""
        if self._progress is not None:
            self._progress.stop()

    def begin(self, t: float) -> None:
        """A new step."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=0.0, t=t)

    def advance(self, fraction: float) -> None:
        """A part of the step is done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=fraction)

    def end(self, info: Info) -> None:
        """A step is done: show what it was like."""
        if self._progress is not None and self._task is not None:
            last = f"step {info.step}: {info.seconds:.2f} s, {info.health}"
            self._progress.update(self._task, completed=1.0, last=last)


def _bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("t = {task.fields[t]:.6g}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
        console=Console(stderr=True),
        transient=False,
    )
