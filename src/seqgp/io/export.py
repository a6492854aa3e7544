"""A run for other tools: NetCDF, Zarr, or a flat table."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np

from seqgp.io.arviz import to_datatree
from seqgp.io.files import unwritten, write_atomically
from seqgp.io.step import Step
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS
from seqgp.models.errors import extra

with extra("io"):
    import pandas as pd

EXPORTS = (".nc", ".zarr", ".parquet")


def export_run(store: Store, path: Path) -> None:
    """Write a run to a file by the ending of its name; it is there whole, or not at all."""
    if path.suffix == ".parquet":
        frame = latent_table(store)
        write_atomically(path, lambda file: frame.to_parquet(file, index=False))
        return
    tree = to_datatree(store)
    if path.suffix == ".nc":
        # In memory first: where the disk is full, the library of the format brings the whole process down.
        content = tree.to_netcdf(None, engine="h5netcdf")
        write_atomically(path, lambda file: file.write(content))
        return
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


def latent_table(store: Store) -> pd.DataFrame:
    """One row per time and location: inputs, data where there is one a location, statistics of the latent."""
    return pd.concat([_rows(step) for step in store], ignore_index=True)


def _rows(step: Step) -> pd.DataFrame:
    snapshot, summary = step.snapshot, step.summary
    n = len(snapshot.x)
    columns = {"time": np.full(n, step.t), "location": step.labels or np.arange(n).astype(str).tolist()}
    columns |= {f"x{d}": snapshot.x[:, d] for d in range(snapshot.x.shape[1])}
    if snapshot.y.shape == (n,):
        columns["y"] = snapshot.y
    columns |= dict(zip(STATISTICS, summary.latent))
    return pd.DataFrame(columns)
