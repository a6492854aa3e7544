"""What a snapshot accepts, and what it says to what it does not."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp

X, Y = np.zeros((3, 2)), np.zeros(3)


def test_arrays_of_any_kind_become_floats():
    snapshot = seqgp.Snapshot(np.float32(1), jnp.ones((3, 2), int), [1, 2, np.nan], {"exposure": [1, 2, 3]})
    assert isinstance(snapshot.t, float)
    assert snapshot.x.dtype == snapshot.y.dtype == np.float64
    assert np.isnan(snapshot.y).tolist() == [False, False, True]


def test_later_changes_to_an_array_of_the_users_change_nothing():
    x, y, area = X.copy(), Y.copy(), np.ones(3)
    snapshot = seqgp.Snapshot(0.0, x, y, {"area": area})
    x[:], y[:], area[:] = 9, 9, 9  # the next day in the same buffers
    np.testing.assert_array_equal(snapshot.x, X)
    np.testing.assert_array_equal(snapshot.y, Y)
    np.testing.assert_array_equal(snapshot.context["area"], np.ones(3))


def test_what_is_masked_is_missing():
    masked = np.ma.array([1.0, -999.0, 3.0], mask=[False, True, False])
    snapshot = seqgp.Snapshot(0.0, X, masked, {"area": masked})
    np.testing.assert_array_equal(snapshot.y, [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(snapshot.context["area"], [1.0, np.nan, 3.0])
    with pytest.raises(seqgp.DataError, match="every input must be known"):
        seqgp.Snapshot(0.0, masked[:, None], Y)


def test_a_list_of_numbers_in_the_context_is_an_array():
    context = seqgp.Snapshot(0.0, X, Y, {"area": [1, 2.5, 3], "pair": (1.0, 2.0)}).context
    np.testing.assert_array_equal(context["area"], [1, 2.5, 3])
    assert isinstance(context["pair"], tuple)


def test_minus_zero_is_the_place_that_zero_is():
    assert not np.signbit(seqgp.Snapshot(0.0, -X, Y).x).any()


def test_it_can_be_pickled():
    again = pickle.loads(pickle.dumps(seqgp.Snapshot(1.0, X, Y, {"a": np.ones(3)})))
    assert again.t == 1.0
    np.testing.assert_array_equal(again.x, X)


def poisoned(value):
    return np.where(np.arange(6).reshape(3, 2) == 3, value, X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, np.zeros(200), Y), r"x has shape \(200,\), expected \(N, D\); for one dimension use x\[:, None\]"),
        (
            (0.0, poisoned(np.nan), Y),
            r"x: 1 of 6 values are NaN \(first at index \(1, 1\)\); every input must be known",
        ),
        ((0.0, poisoned(np.inf), Y), r"x: 1 of 6 values are infinite \(first at index \(1, 1\)\)"),
        ((0.0, X, [0, np.inf, -np.inf]), r"y: 2 of 3 values are infinite \(first at index 1\); use NaN for missing"),
        ((0.0, np.zeros((0, 2)), []), r"x is empty \(shape \(0, 2\)\)"),
        ((0.0, X, []), r"y is empty \(shape \(0,\)\); use NaN for missing values"),
        ((np.nan, X, Y), "t = nan is not one finite number"),
        (([0.0, 1.0], X, Y), "is not one finite number"),
        ((0.0, X, ["a", "b", "c"]), "y is not an array of numbers"),
        ((10**400, X, Y), r"t is not an array of numbers \(int too large"),
        ((0.0, X, [10**400, 0, 0]), r"y is not an array of numbers \(int too large"),
        ((0.0, X, Y + 1j), "y is not an array of numbers, but of complex ones"),
        ((np.datetime64("2026-01-01"), X, Y), r"t is not an array of numbers, but of dates; give numbers .*origin"),
        ((np.timedelta64(3, "h"), X, Y), "t is not an array of numbers, but of durations; divide by"),
    ],
)
def test_bad_snapshots_are_named(arguments, message):
    with pytest.raises(seqgp.DataError, match=f"^Snapshot: .*{message}"):
        seqgp.Snapshot(*arguments)
