"""The rows of a table in order of time: as they stand, or station by station, as long formats have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from seqgp.base.errors import extra
from seqgp.io.errors import TableError
from seqgp.io.frames import row_in_file

with extra("io"):
    import pandas as pd


def order_of_rows(path: Path, times: Float[np.ndarray, " n"], places: Any, column: Any) -> Int[np.ndarray, " n"]:
    """The rows in order of time.

    A table may have its rows in order of time, newest first (three times or more), or station by station, each in
    order. Any other order is refused: a time that goes back is more often a slip than an order.

    Args:
        path: the file.
        times: of the rows.
        places: the name of the station of each row, or its inputs.
        column: the times as they stand in the file.
    """
    change = np.diff(times)
    if np.all(change >= 0):
        return np.arange(len(times))
    stays = _same(places)
    newest_first = np.all(change <= 0) and np.sum(change < 0) >= 2
    grouped = _in_blocks(stays, places) and (np.all(change[stays] >= 0) or np.all(change[stays] <= 0))
    if not (newest_first or grouped):
        row = int(np.argmax(change < 0)) + 1
        raise TableError(
            f"{path}: row {row_in_file(path, row)}: its time ({column.iloc[row]}) is before that of the row above "
            f"({column.iloc[row - 1]}); sort the table by time"
        )
    return np.argsort(times, kind="stable")


def _same(places: Any) -> Bool[np.ndarray, " m"]:
    """Whether each row but the first is of the place of the row above."""
    if isinstance(places, np.ndarray):
        return np.all(places[1:] == places[:-1], axis=1)
    return np.array([one == other for one, other in zip(places[1:], places)], dtype=bool)


def _in_blocks(stays: Bool[np.ndarray, " m"], places: Any) -> bool:
    """Whether all rows of a place stand together, two or more in the mean."""
    num = len(np.unique(places, axis=0)) if isinstance(places, np.ndarray) else len(set(places))
    return int(np.sum(~stays)) + 1 == num and num > 1 and len(stays) + 1 >= 2 * num


def check_duplicates(path: Path, times: Float[np.ndarray, " n"], inputs: Float[np.ndarray, "n D"]) -> None:
    """Raise where two rows are of one time and place."""
    rows = pd.DataFrame(np.column_stack([times, inputs]))
    again = rows.duplicated().to_numpy()
    if again.any():
        second = int(np.argmax(again))
        first = int(np.argmax((rows == rows.iloc[second]).all(axis=1)))
        raise TableError(
            f"{path}: rows {row_in_file(path, first)} and {row_in_file(path, second)} have the same time and inputs; "
            "keep one, or average them"
        )


def rows_in_words(path: Path, records: Sequence[int] | Int[np.ndarray, " n"]) -> str:
    """Where some records of a table stand in its file."""
    first, last = int(records[0]), int(records[-1])
    if len(records) == 1:
        return f"row {row_in_file(path, first)}"
    if last - first + 1 == len(records):
        return f"rows {row_in_file(path, first)} to {row_in_file(path, last)}"
    return f"row {row_in_file(path, first)} and {len(records) - 1} more"
