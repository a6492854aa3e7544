"""Folds of stations and of blocks of time: each datum is left out once, and nothing else is changed."""

import numpy as np
import pytest

import seqgp
from seqgp.base.errors import DataError
from seqgp.evaluate.folds import folds_of

NAMES = list("ABCDEFG")


def snapshots(times=10):
    rng = np.random.default_rng(1)
    x = rng.random((7, 2))
    found = []
    for t in range(times):
        rows = np.sort(rng.permutation(7)[: 7 if t else 6])
        context = {"height": 10 * x[rows, 0], "wind": 3.0}
        found.append(seqgp.Snapshot(t, x[rows], rng.random(len(rows)), context, [NAMES[row] for row in rows]))
    return found


def rows(data):
    return [(one.t, *x, y, h) for one in data for x, y, h in zip(one.x.tolist(), one.y, one.context["height"])]


@pytest.mark.parametrize(
    "how",
    [
        {"leave_out": "station", "count": 3},
        {"leave_out": "time", "count": 4},
        {"leave_out": "time", "count": 2, "block": 2},
    ],
)
def test_each_datum_is_left_out_once(how):
    data = snapshots()
    folds = folds_of(data, **how)
    assert len(folds) == how["count"]
    assert sorted(rows([one for fold in folds for one in fold.held_out])) == sorted(rows(data))
    for fold in folds:
        assert sorted(rows(fold.kept) + rows(fold.held_out)) == sorted(rows(data))
        assert all(one.context["wind"] == 3.0 for one in fold.kept)


def test_a_station_is_left_out_at_all_times():
    def groups(folds):
        return [{name for one in fold.held_out for name in one.labels or ()} for fold in folds]

    folds = folds_of(snapshots(), "station", 3, seed=2)
    found = groups(folds)
    assert sorted(map(len, found)) == [2, 2, 3]
    assert set().union(*found) == set(NAMES)
    for fold, group in zip(folds, found):
        assert not group & {name for one in fold.kept for name in one.labels or ()}
    assert found != groups(folds_of(snapshots(), "station", 3, seed=3))


def test_blocks_of_time():
    def times(**how):
        return [[one.t for one in fold.held_out] for fold in folds_of(snapshots(), "time", **how)]

    assert times(count=3) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert times(count=2, block=2) == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("station", 8), "8 folds of 7 stations; give at least 2, and at most 7"),
        (("time", 1), "1 folds of 10 times; give at least 2, and at most 10"),
        (("time", 4, 3), "4 folds with blocks of 3 times do not fit into 10 times; give a block between 1 and 2"),
        (("station", 3, 2), "block is a number of times"),
        (("day", 3), "leave_out = 'day' is neither 'station' nor 'time'"),
    ],
)
def test_what_is_refused(arguments, said):
    with pytest.raises(DataError, match=said):
        folds_of(snapshots(), *arguments)
