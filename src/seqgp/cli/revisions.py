"""The command ``log``: what late and corrected data changed in a run."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from seqgp.cli.common import Debug, Json, RunFolder, command, moment, open_run, show
from seqgp.cli.lines import revised
from seqgp.io.changes import revisions_of


@command
def log(folder: RunFolder, json: Json = False, debug: Debug = False) -> None:
    """List the late and corrected data that revised the past of a run, with what they replaced."""
    store = open_run(folder)
    found = revisions_of(store)
    plain = [one._asdict() | {"changes": [change._asdict() for change in one.changes]} for one in found]

    def text(out: Console) -> None:
        for one in found:
            said = revised(one.extras)
            out.print(f"step {one.step}, {one.when}, at {moment(store, one.t)}: {said}", markup=False)
            for change in one.changes:
                values = f"{_said(change.before)} -> {_said(change.after)}"
                out.print(f"  {moment(store, change.t)}, {change.location}: {values}", markup=False)
        if not found:
            out.print(f"{folder}: no late or corrected data so far", markup=False)

    show({"run": folder, "revisions": plain}, json, text)


def _said(value: float | None) -> str:
    if value is None:
        return "none"
    return "missing" if np.isnan(value) else f"{value:g}"
