"""Coordinates that are refused or named, and those that are neither."""

import warnings

import numpy as np
import pandas as pd
import pytest

from seqgp.io.coordinates import check_coordinates
from seqgp.io.errors import TableError
from seqgp.io.tables import Columns, snapshots_from

NAMES = ("lon", "lat")


def snapshots(tmp_path, place=None, x=None, names=NAMES, values=None):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(7, 9, 8), rng.uniform(46, 47, 8)]) if x is None else x
    if place is not None:
        x[3] = place
    frame = pd.DataFrame(x, columns=list(names)).assign(t=0, station=[f"S{i}" for i in range(len(x))])
    path = tmp_path / "table.csv"
    frame.assign(y=np.arange(len(x)) if values is None else values).to_csv(path, index=False)
    return path, snapshots_from(path, Columns("t", names, "y", "station"))


def rng_box(low, high):
    return np.random.default_rng(2).uniform(low, high, (8, 2))


def test_a_latitude_above_90_is_refused(tmp_path):
    path, found = snapshots(tmp_path, (8.0, 146.5))
    said = r"row 5 \(location 'S3'\), column 'lat': 146.5 is not between -90 and 90 degrees; are the columns"
    with pytest.raises(TableError, match=said):
        check_coordinates(path, found, NAMES)
    path, found = snapshots(tmp_path, (8.0, 46.5), x=rng_box(140, 150), names=("x", "z"))
    with pytest.warns(UserWarning, match="far from all others"):
        check_coordinates(path, found, ("x", "z"))


@pytest.mark.parametrize(
    ("place", "said"),
    [((46.5, 8.0), "are its coordinates swapped"), ((8.0, 4.65), "is it a slip"), ((80.0, 46.5), "is it a slip")],
)
def test_a_place_far_from_all_others_is_named(tmp_path, place, said):
    path, found = snapshots(tmp_path, place)
    with pytest.warns(UserWarning, match=rf"row 5 \(location 'S3'\): lon = {place[0]:g}.*far from all others.*{said}"):
        check_coordinates(path, found, NAMES)


def test_networks_of_all_shapes_are_not(tmp_path):
    rng = np.random.default_rng(1)
    line = np.column_stack([np.linspace(0, 10, 9), np.zeros(9)])
    outlying = np.concatenate([rng.normal(0, 0.1, (8, 2)), [[1.5, 1.0]]])
    world = np.column_stack([rng.uniform(-180, 180, 9), rng.uniform(-90, 90, 9)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (line, outlying, world, np.repeat(np.arange(9.0)[:, None], 2, axis=1)):
            check_coordinates(*snapshots(tmp_path, x=x), NAMES)


def test_a_number_that_may_stand_for_a_missing_value_is_named(tmp_path):
    with pytest.warns(UserWarning, match=r"column 'y': -999 is taken as a value \(2 times, the first in row 3\)"):
        snapshots(tmp_path, values=[12.0, -999, 13, 11, -999, 10, 12, 11])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        snapshots(tmp_path, values=[-1200, -999, -700, -300, -200, -900, -1000, -800.0])
