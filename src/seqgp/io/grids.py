"""Points to predict at from a grid in NetCDF: its coordinates and variables are the columns of a table."""

from __future__ import annotations

import warnings
from pathlib import Path

from seqgp.base.errors import extra, one_line
from seqgp.io.errors import TableError
from seqgp.io.frames import LARGEST

with extra("io"):
    import pandas as pd

GRIDS = (".nc", ".nc4")


def grid_table(path: Path) -> pd.DataFrame:
    """One row for each cell of a grid; cells in which a variable is missing (the sea) are left out, and counted.

    Raises:
        TableError: where the file is no grid.
    """
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise TableError(f"{path}: not a file, or larger than {LARGEST} bytes; give a grid in NetCDF")
    with extra("io"):  # for grids alone: it takes a while
        import xarray as xr
    try:
        with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as grid:
            frame = grid.to_dataframe().reset_index()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableError(f"{path}: cannot be read as NetCDF ({one_line(error)})") from error
    whole = frame.dropna()
    if not len(whole):
        raise TableError(f"{path}: the grid has no cell in which every variable has a value")
    if len(whole) < len(frame):
        warnings.warn(f"{path}: {len(frame) - len(whole)} of {len(frame)} cells have no value: left out", stacklevel=2)
    return whole.reset_index(drop=True)
