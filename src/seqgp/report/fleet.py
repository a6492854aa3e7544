"""A page about a fleet: streams as rows, the worst first, with what their scores were like over time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seqgp.base.errors import one_line
from seqgp.fleets.status import Status
from seqgp.io.files import write_atomically
from seqgp.io.store import Store
from seqgp.report.make import report
from seqgp.report.page import Link, Page, Sparkline
from seqgp.report.sentences import Sentence

REPORTS = ".reports"  # the folder of the streams' own reports: no stream is called so


def stream_report(folder: Path, name: str) -> Path:
    """The report of a stream, where the page links to it."""
    (folder / REPORTS).mkdir(exist_ok=True)
    return report(Store(folder / name), folder / REPORTS / f"{name}.html")


def stream_reports(folder: Path, streams: Sequence[Status], most: int) -> dict[str, str]:
    """Reports of the first streams that can have one; why others cannot, by name."""
    written, without = 0, dict[str, str]()
    for name in (one.outcome.stream for one in streams if one.outcome.steps):
        if written >= most:
            break
        try:
            stream_report(folder, name)
            written += 1
        except Exception as error:  # of a damaged run: the others have theirs
            without[name] = one_line(error, 1000)
            with contextlib.suppress(OSError):  # one from before it was damaged
                (folder / REPORTS / f"{name}.html").unlink()
    return without


def fleet_page(folder: Path, streams: Sequence[Status], path: Path) -> Path:
    """Write the page.

    Args:
        folder: of the fleet's runs.
        streams: as they stand, the worst first.
        path: the file to write; links to reports are relative to it where they can be.
    """
    page = Page(f"Fleet {folder.resolve().name}")
    counts = Counter(one.state for one in streams)
    covered = [one.outcome.coverage_95 for one in streams if one.outcome.coverage_95 is not None]
    facts = {"streams": len(streams)} | dict(counts) | {"steps": sum(one.outcome.steps for one in streams)}
    page.facts(facts | ({"inside 95 %, median": f"{np.median(covered):.0%}"} if covered else {}))
    page.findings(_findings(streams))
    page.heading("Streams, the worst first")
    page.text(
        "Failures come first, then streams that were remarked upon in many steps, then those whose share of data "
        "inside the 95 % forecast interval is far from 95 %. The line is the CRPS of forecasts one step "
        "ahead, over time (less is better).",
        soft=True,
    )
    header = ["stream", "state", "steps", "t", "CRPS", "over time", "inside 95 %", "log evidence", "what is wrong"]
    page.listing(header, [_row(folder, one, path) for one in streams])
    text = page.html(f"{len(streams)} streams in {folder}")
    write_atomically(path, lambda file: file.write(text.encode()))
    return path


def _findings(streams: Sequence[Status]) -> list[Sentence]:
    failed = [one.outcome for one in streams if one.state == "failed"]
    damaged = sum(one.state == "damaged" for one in streams)
    remarked = [one.outcome for one in streams if one.state not in ("damaged", "failed") and one.outcome.warnings]
    waiting = sum(one.state in ("waiting", "unfinished") for one in streams)
    found = []
    if damaged:
        what = f"Damaged: {damaged} of {len(streams)} streams; the table names the file, and `seqgp check` all."
        found.append(Sentence(False, what))
    if failed:
        found.append(
            Sentence(False, f"Failed: {len(failed)} of {len(streams)} streams; the table has the step and why.")
        )
    if remarked:
        found.append(Sentence(False, f"Remarked upon: {len(remarked)} of {len(streams)} streams."))
    if waiting:
        found.append(
            Sentence(False, f"Not at their end: {waiting} of {len(streams)} streams; run the fleet again to go on.")
        )
    return found or [Sentence(True, "All streams came to their end, and nothing was remarked upon.")]


def _row(folder: Path, one: Status, path: Path) -> list[str | Link | Sparkline]:
    row = one.outcome
    target = folder / REPORTS / f"{row.stream}.html"
    name: str | Link = row.stream
    if target.exists():
        near = target.resolve().is_relative_to(path.parent.resolve())
        where = target.resolve().relative_to(path.parent.resolve()).as_posix() if near else target.resolve().as_uri()
        name = Link(row.stream, where)
    step = "" if row.step is None else f"step {row.step}: "
    return [
        name,
        one.state,
        str(row.steps),
        "" if row.t is None else f"{row.t:g}",
        "" if row.crps is None else f"{row.crps:.3g}",
        Sparkline(row.curve),
        "" if row.coverage_95 is None else f"{row.coverage_95:.0%}",
        "" if row.log_evidence is None else f"{row.log_evidence:.1f}",
        row.remark if row.error is None else step + row.error,
    ]
