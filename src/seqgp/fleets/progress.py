"""Progress of a fleet: streams that are done, and steps of all of them; quiet without a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from seqgp.fleets.outcome import Outcome


class FleetBar:
    """One bar over all streams, with the number of steps beside it."""

    def __init__(self, streams: int, show: bool | None = None):
        self._under_way: dict[str, int] = {}
        self._steps = self._failed = 0
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty() if show is None else show:
            columns = TextColumn("streams"), MofNCompleteColumn(), BarColumn(bar_width=24), TimeElapsedColumn()
            self._progress = Progress(*columns, TextColumn("{task.fields[said]}"), console=Console(stderr=True))
            self._task = self._progress.add_task("", total=streams, said="")

    def __enter__(self) -> FleetBar:
        """Show the bar."""
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the bar as it is."""
        if self._progress is not None:
            self._progress.stop()

    def progressed(self, name: str, added: int) -> None:
        """A stream that is under way has added so many steps."""
        self._under_way[name] = added
        self._show()

    def ended(self, outcome: Outcome) -> None:
        """A stream is done, or has failed."""
        self._under_way.pop(outcome.stream, None)
        self._steps += outcome.added
        self._failed += outcome.error is not None
        self._show(1)

    def _show(self, advance: int = 0) -> None:
        if self._progress is None or self._task is None:
            return
        said = f"{self._steps + sum(self._under_way.values())} steps"
        said += f", {len(self._under_way)} under way" if self._under_way else ""
        self._progress.update(
            self._task, advance=advance, said=said + (f", {self._failed} failed" * bool(self._failed))
        )
