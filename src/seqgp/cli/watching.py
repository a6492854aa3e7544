"""The command ``watch``: new tables are taken as they arrive, in the order of the times inside them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from seqgp.cli.common import GOES_ON, Debug, Json, Mistake, RunFolder, command, console, moment, open_run, show, shown
from seqgp.cli.fitting import Continued, report_run, sort_out
from seqgp.io.errors import DamagedError, PassingError
from seqgp.io.inbox import Arrival, Inbox
from seqgp.io.left import leave_out, left_out, used
from seqgp.io.seen import Seen, same_data
from seqgp.io.tables import Labelled, snapshots_from
from seqgp.models.errors import SeqgpError
from seqgp.runtime import stopping


@command(stopped=GOES_ON)
def watch(
    folder: RunFolder,
    inbox: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where new tables arrive.")],
    interval: Annotated[float, typer.Option(min=0.05, max=86400, help="Seconds between two looks.")] = 5.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Take new tables as they arrive in a folder, until stopped by a signal (Ctrl-C, or SIGTERM).

    A file is taken when it is whole: when neither its size nor its time has changed between two looks. Of several, the
    one with the earliest time is taken first. What cannot be used (late times, other values for a time that was seen,
    no table at all) is named, and kept in a list that `seqgp summary` shows. Where the run is in use or the disk is
    full, the file is tried again.
    """
    store = open_run(folder)
    if not inbox.is_dir():
        raise Mistake(f"{inbox}: not a folder; give the one where new tables arrive")
    watching = _Watch(Continued.of(store), Inbox(inbox, {note.file: note.mark for note in left_out(folder)}), json)
    try:
        while True:
            watching.look(interval)
            stopping.pause(interval)
    except KeyboardInterrupt:
        last = store.latest()
        show(
            {"stopped": True, "steps": len(store), "t": last.t},
            json,
            lambda out: out.print(f"stopped; the run is whole up to step {last.number}, {moment(store, last.t)}"),
        )


class _New(NamedTuple):
    """A snapshot to be added, and the file that it came in."""

    snapshot: Labelled
    arrival: Arrival


class _Watch:
    """One look after the other at a folder of tables."""

    def __init__(self, continued: Continued, inbox: Inbox, as_json: bool):
        self.continued, self.inbox, self.as_json = continued, inbox, as_json
        self._missing = False

    def look(self, pause: float) -> None:
        """Take what has arrived whole since the last look."""
        try:
            arrivals = self.inbox.look()
        except OSError as error:
            if not self._missing:  # a share that is away for a while: named once
                self._say(self.inbox.folder, f"{self.inbox.folder}: {error.strerror}; trying again", "waiting")
            self._missing = True
            return
        self._missing = False
        if arrivals:
            self._take(arrivals, pause)

    def _take(self, arrivals: list[Arrival], pause: float) -> None:
        new, reasons = self._read(arrivals)
        new = self._in_order(new, reasons)
        waiting: dict[Path, str] = {}
        for path, group in itertools.groupby(new, key=lambda one: one.arrival.path):
            stopping.check()
            if waiting:  # what is later must not overtake what waits
                waiting[path] = "it comes after one that waits"
                continue
            try:
                result = self.continued.extend([one.snapshot for one in group])
            except DamagedError:
                raise
            except PassingError as error:
                waiting[path] = str(error)
                continue
            except SeqgpError as error:
                reasons.setdefault(path, []).append(str(error))
                continue
            if not self.as_json:
                console().print(f"{shown(path.name)}:", markup=False)
            report_run(result, self.as_json)
        for arrival in arrivals:
            self._conclude(arrival, waiting.get(arrival.path), reasons.get(arrival.path), pause)

    def _read(self, arrivals: list[Arrival]) -> tuple[list[_New], dict[Path, list[str]]]:
        """The new snapshots of all files, and what is wrong with the rest."""
        seen, reasons, new = Seen(self.continued.store), {}, []
        for arrival in arrivals:
            stopping.check()
            path = arrival.path
            try:
                if arrival.wrong is not None:
                    raise Mistake(f"{path}: {arrival.wrong}")
                later, refused = sort_out(seen, path, snapshots_from(path, self.continued.columns()))
                self.continued.check(path, later)
            except SeqgpError as error:
                reasons[path] = [str(error)]
                continue
            new += [_New(snapshot, arrival) for snapshot in later]
            if refused:
                reasons[path] = [f"{path}: {text}" for text in refused]
        return new, reasons

    def _in_order(self, new: list[_New], reasons: dict[Path, list[str]]) -> list[_New]:
        """By time, whatever the files are called; of two for one time the first counts, and the other is named."""
        ordered: list[_New] = []
        for one in sorted(new, key=lambda one: one.snapshot.t):
            first = ordered[-1] if ordered and ordered[-1].snapshot.t == one.snapshot.t else None
            if first is None:
                ordered.append(one)
            elif not same_data(first.snapshot, one.snapshot):
                path, other, t = one.arrival.path, first.arrival.path, one.snapshot.t
                when = moment(self.continued.store, t)
                text = f"{path}: {one.snapshot.rows(path)}: {other.name} has other data for {when}"
                reasons.setdefault(path, []).append(text)
        return ordered

    def _conclude(self, arrival: Arrival, waiting: str | None, reasons: list[str] | None, pause: float) -> None:
        path = arrival.path
        if waiting is not None:
            if self.inbox.again(arrival, pause):
                self._say(path, f"{path.name}: {waiting}; trying again", "waiting")
            return
        if reasons is None:
            used(self.continued.store.path, path)
        else:
            text = "; ".join(" ".join(reason.split()) for reason in reasons)
            self._say(path, text, "left alone")
            leave_out(self.continued.store.path, path, shown(text), arrival.mark)
        self.inbox.done(arrival)

    def _say(self, path: Path, text: str, what: str) -> None:
        said = {"file": path, ("error" if what == "left alone" else what.replace(" ", "_")): text}
        show(said, self.as_json, lambda out: out.print(f"{what}: {shown(text)}", markup=False))
