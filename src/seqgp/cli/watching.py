"""The command ``watch``: new tables are taken as they arrive, in the order of the times inside them."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from seqgp.base.errors import SeqgpError
from seqgp.cli.common import GOES_ON, Debug, Json, Mistake, RunFolder, command, console, moment, open_run, show, shown
from seqgp.cli.fitting import Continued, LateData, report_run, sort_out
from seqgp.io.errors import DamagedError, StoreError, TableError
from seqgp.io.inbox import Arrival, Inbox
from seqgp.io.late_rows import disjoint
from seqgp.io.run import Run
from seqgp.io.tables import Labelled, snapshots_from
from seqgp.io.unused_rows import leave_out, used
from seqgp.runtime import stopping
from seqgp.samplers.arrivals import same_data


@command(stopped=GOES_ON)
def watch(
    folder: RunFolder,
    inbox: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where new tables arrive.")],
    interval: Annotated[float, typer.Option(min=0.05, max=86400, help="Seconds between two looks.")] = 5.0,
    late: LateData = "revise",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add tables to a run as they arrive in a folder, until stopped (Ctrl-C).

    A file is taken when it is whole: when neither its size nor its time has changed between two looks. Files are taken
    in the order of the times inside them: one that has to wait, because the run is in use, the disk is full or the file
    is still being written, holds up all later ones. Rows that are late or corrected revise the past; those that were
    replaced since stay so. What cannot be used (no table at all, data beyond a bounded history) is named, and kept in a
    list that `seqgp summary` shows; it is tried again when the file or its permissions change, and when `watch` is
    started again.
    """
    store = open_run(folder)
    if not inbox.is_dir():
        raise Mistake(f"{inbox}: not a folder; give the one where new tables arrive")
    watching = _Watch(Continued.of(store, late), Inbox(Path(os.path.realpath(inbox))), json)
    try:
        while True:
            watching.look(interval)
            stopping.pause(interval)
    except KeyboardInterrupt as error:
        last = store.latest()
        show(
            {"stopped": True, "steps": len(store), "t": last.t},
            json,
            lambda out: out.print(f"stopped; the run is whole up to step {last.number}, {moment(store, last.t)}"),
        )
        raise typer.Exit(128 + getattr(error, "number", signal.SIGINT)) from None


class _New(NamedTuple):
    """A snapshot to be added, and the file that it came in; others may have had some of its rows."""

    snapshot: Labelled
    arrival: Arrival
    others: tuple[Arrival, ...] = ()


class _Watch:
    """One look after the other at a folder of tables."""

    def __init__(self, continued: Continued, inbox: Inbox, as_json: bool):
        self.continued, self.inbox, self.as_json = continued, inbox, as_json
        self._waiting: set[Path] = set()  # what was said to wait, once for each
        self._unnoted: dict[Path, str] = {}  # what the list of files that were not used still lacks

    def look(self, pause: float) -> None:
        """Take what has arrived whole since the last look."""
        for path, text in list(self._unnoted.items()):
            self._note(path, text)
        try:
            found = self.inbox.look()
        except OSError as error:  # a share that is away for a while
            self._wait(self.inbox.folder, f"{self.inbox.folder}: {error.strerror}")
            return
        self._waiting.discard(self.inbox.folder)
        if not found.whole:
            return
        try:
            new, reasons = self._read(found.whole)
            ordered = self._in_order(new, reasons)
            first = self._first_to_come(found.coming) if ordered else math.inf
        except DamagedError:
            raise
        except (StoreError, OSError) as error:  # the run cannot be read for a while
            self._wait(self.continued.store.path, str(error))
            self.inbox.hold(pause)
            return
        self._waiting.discard(self.continued.store.path)
        waiting, held = self._add(ordered, first, reasons)
        self.inbox.hold(pause) if held else self.inbox.release()
        for one in ordered:
            for other in one.others if one.arrival.path in waiting else ():
                waiting.setdefault(other.path, waiting[one.arrival.path])
        for arrival in found.whole:
            self._conclude(arrival, waiting.get(arrival.path), reasons.get(arrival.path))

    def _add(self, ordered: list[_New], first: float, reasons: dict[Path, list[str]]) -> tuple[dict[Path, str], bool]:
        """Sample after each snapshot before a time; which files wait, and whether the run is why."""
        waiting: dict[Path, str] = {}
        held = False
        for path, group in itertools.groupby(ordered, key=lambda one: one.arrival.path):
            stopping.check()
            ready = list(group) if not waiting else []  # what is later must not overtake what waits
            before = [one.snapshot for one in ready if one.snapshot.t < first]
            if len(before) < len(ready) or not ready:
                why = "it comes after one that waits" if waiting else "an earlier file is not whole yet"
                waiting.setdefault(path, why)
            try:
                result = self.continued.extend(before, self.as_json) if before else None
            except DamagedError:
                raise
            except (StoreError, OSError) as error:  # of the run, not of the file: in use, on a full disk, out of reach
                waiting[path], held = str(error), True
                continue
            except SeqgpError as error:
                reasons.setdefault(path, []).append(str(error))
                continue
            if result is not None:
                taken = self.continued.taken
                self._report(path, result._replace(infos=taken or result.infos[-1:]))
        return waiting, held

    def _first_to_come(self, coming: list[Path]) -> float:
        """The earliest new time in files that are on their way; one that cannot be read yet may hold any."""
        first, last = math.inf, self.continued.session.seen.last
        for path in coming:
            try:
                times = [snapshot.t for snapshot in snapshots_from(path, self.continued.columns())]
            except TableError:
                return -math.inf
            first = min([first, *(t for t in times if t > last)])
        return first

    def _report(self, path: Path, result: Run) -> None:
        with _unread():
            if not self.as_json:
                console().print(f"{shown(path.name)}:", markup=False)
            report_run(result, self.as_json, steps=len(self.continued.session.seen), taken=self.continued.taken)

    def _read(self, arrivals: list[Arrival]) -> tuple[list[_New], dict[Path, list[str]]]:
        """The new snapshots of all files, and what is wrong with the rest."""
        reasons, new = {}, []
        for arrival in arrivals:
            stopping.check()
            path = arrival.path
            try:
                if arrival.wrong is not None:
                    raise Mistake(f"{path}: {arrival.wrong}")
                given = sort_out(self.continued, path, snapshots_from(path, self.continued.columns()), again=True)
                self.continued.check(path, [*given.late, *given.new])
            except StoreError:
                raise
            except SeqgpError as error:
                reasons[path] = [str(error)]
                continue
            new += [_New(snapshot, arrival) for snapshot in (*given.late, *given.new)]
            if given.refused:
                reasons[path] = [f"{path}: {text}" for text in given.refused]
        return new, reasons

    def _in_order(self, new: list[_New], reasons: dict[Path, list[str]]) -> list[_New]:
        """By time, whatever the files are called; rows of one time are put together.

        Of two files with other data for the same place and time the first counts, and the other is named.
        """
        ordered: list[_New] = []
        for one in sorted(new, key=lambda one: one.snapshot.t):
            first = ordered[-1] if ordered and ordered[-1].snapshot.t == one.snapshot.t else None
            joined = None if first is None else disjoint(first.snapshot, one.snapshot)
            if first is None:
                ordered.append(one)
            elif joined is not None:
                ordered[-1] = _New(joined, first.arrival, (*first.others, one.arrival))
            elif not same_data(first.snapshot, one.snapshot):
                path, other, t = one.arrival.path, first.arrival.path, one.snapshot.t
                when = moment(self.continued.store, t)
                text = f"{path}: {one.snapshot.rows(path)}: {other.name} has other data for {when}"
                reasons.setdefault(path, []).append(text)
        return ordered

    def _conclude(self, arrival: Arrival, waiting: str | None, reasons: list[str] | None) -> None:
        path = arrival.path
        if waiting is not None:
            self._wait(path, f"{path.name}: {waiting}")
            return
        self._waiting.discard(path)
        if reasons is None:
            self._unnoted.pop(path, None)
            used(self.continued.store.path, path)
        else:
            text = "; ".join(" ".join(reason.split()) for reason in reasons)
            self._say(path, text, "left alone")
            self._note(path, shown(text))
        self.inbox.done(arrival)

    def _note(self, path: Path, text: str) -> None:
        """Put a file on the list of those that were not used; now, or once that can be written."""
        try:
            leave_out(self.continued.store.path, path, text)
        except (SeqgpError, OSError) as error:
            if path not in self._unnoted:
                self._say(path, f"{path.name}: cannot be put on the list of unused files yet ({error})", "waiting")
            self._unnoted[path] = text
        else:
            self._unnoted.pop(path, None)

    def _wait(self, path: Path, why: str) -> None:
        if path not in self._waiting:
            self._waiting.add(path)
            self._say(path, f"{why}; trying again", "waiting")

    def _say(self, path: Path, text: str, what: str) -> None:
        said = {"file": path, ("error" if what == "left alone" else what.replace(" ", "_")): text}
        with _unread():
            show(said, self.as_json, lambda out: out.print(f"{what}: {shown(text)}", markup=False))


@contextlib.contextmanager
def _unread():
    """What is said may go to a file on a disk that is full: that alone is no reason to stop."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        pass
