"""A run for other tools: NetCDF, Zarr, or a flat table."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqgp.base.errors import extra
from seqgp.base.transforms import Transform, transform_of
from seqgp.io.arviz import to_datatree
from seqgp.io.cf import DRAWS, cf_dataset
from seqgp.io.errors import StoreError
from seqgp.io.files import unwritten, write_atomically, write_csv
from seqgp.io.geo import write_points
from seqgp.io.naming import naming_of
from seqgp.io.step import Step
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS

with extra("io"):
    import pandas as pd

EXPORTS = (".nc", ".zarr", ".parquet", ".geoparquet", ".csv")


def export_run(store: Store, path: Path, arviz: bool = False, draws: int | None = DRAWS) -> None:
    """Write a run to a file by the ending of its name; it is there whole, or not at all.

    Args:
        store: the run.
        path: the file: ``.nc`` after the CF conventions, ``.zarr`` as a tree for ArviZ, ``.parquet``,
            ``.geoparquet`` or ``.csv`` flat.
        arviz: whether NetCDF too is the tree for ArviZ, with all draws and replicated data.
        draws: of NetCDF after the CF conventions; all with ``None``.
    """
    if path.suffix in (".parquet", ".geoparquet", ".csv"):
        table = latent_table(store)
        dimension = next(iter(store)).snapshot.x.shape[1]
        inputs = naming_of(store.manifest.section("data"), dimension).inputs or [f"x{d}" for d in range(dimension)]
        write_table(path, table, [_apart(name) for name in inputs])
        return
    if path.suffix == ".nc":
        # In memory first: where the disk is full, the library of the format brings the whole process down.
        data = to_datatree(store) if arviz else cf_dataset(store, draws)
        content = data.to_netcdf(None, engine="h5netcdf")
        write_atomically(path, lambda file: file.write(content))
        return
    tree = to_datatree(store)
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise unwritten(path, error) from error
    try:
        written = aside / path.name
        with warnings.catch_warnings():  # about metadata that only makes reading faster
            warnings.simplefilter("ignore")
            tree.to_zarr(written)
        if path.is_dir():  # of an earlier export: a folder is not replaced by a rename
            os.replace(path, aside / "earlier")
        os.replace(written, path)
    except OSError as error:
        raise unwritten(path, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_table(path: Path, frame: pd.DataFrame, inputs: Sequence[str] = ()) -> None:
    """A table as CSV, Parquet or GeoParquet, by the ending of its name.

    Args:
        path: the file.
        frame: the table.
        inputs: for GeoParquet, the columns of the coordinates.
    """
    if path.suffix == ".csv":
        write_csv(path, frame)
    elif path.suffix == ".geoparquet":
        if len(inputs) != 2:
            raise StoreError(f"{path}: points have two coordinates, but the run has {len(inputs)} inputs; use .parquet")
        write_atomically(path, lambda file: write_points(file, frame, inputs))
    else:
        write_atomically(path, lambda file: frame.to_parquet(file, index=False))


def latent_table(store: Store) -> pd.DataFrame:
    """One row per time and location: inputs, data where there is one a location, statistics of the latent.

    Columns are called as in the run's table, so that the two can be joined; a name that a statistic has too is followed
    by ``(data)``. Where times are dates, they are dates, and beside them counted in the run's unit (``days``, say).
    Without a table the names are ``time``, ``location``, ``x0``, …, ``y``.
    """
    steps = store.standing()
    dimension = steps[-1].snapshot.x.shape[1]
    names = naming_of(store.manifest.section("data"), dimension)
    inputs = names.inputs or [f"x{d}" for d in range(dimension)]
    dates = names.dates([step.t for step in steps])
    found: Any = [step.t for step in steps] if dates is None else pd.to_datetime(dates, format="ISO8601")
    times = {names.time or "time": found} | ({} if dates is None else {names.unit: [step.t for step in steps]})
    transform = transform_of(store.manifest.section("data"))
    frames = [_rows(step, names.location or "location", inputs, names.value or "y", transform) for step in steps]
    counts = [len(frame) for frame in frames]
    columns = {name: pd.Series(values).repeat(counts).reset_index(drop=True) for name, values in times.items()}
    rows = pd.concat(frames, ignore_index=True)
    return pd.DataFrame({_apart(name): column for name, column in columns.items() if name not in rows} | dict(rows))


def _rows(step: Step, location: str, inputs: list[str], value: str, transform: Transform | None) -> pd.DataFrame:
    snapshot, summary = step.snapshot, step.summary
    n = len(snapshot.x)
    columns = {_apart(location): step.labels or np.arange(n).astype(str).tolist()}
    columns |= {_apart(name): snapshot.x[:, d] for d, name in enumerate(inputs)}
    if snapshot.y.shape == (n,):
        columns[_apart(value)] = snapshot.y if transform is None else transform.restored(snapshot.y)
    columns |= dict(zip(STATISTICS, summary.latent))
    return pd.DataFrame(columns)


def _apart(name: str) -> str:
    """The name of a column of data, told apart from that of a statistic."""
    return f"{name} (data)" if name in STATISTICS else name
