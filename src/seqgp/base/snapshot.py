"""A snapshot: the data of one time."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import DTypeLike

from seqgp.base.errors import DataError

Context = Any
"""What the likelihood and the mean need besides ``f``: a dictionary of arrays, or any tree of arrays."""

MAX_VALUE = 1e100  # squares of numbers, and sums of them, must be finite
NOT_REAL = {  # kinds of arrays that NumPy turns into floats without what they mean
    "c": "of complex ones; give real numbers",
    "M": "of dates; give numbers in a unit of your own, (date - origin) / numpy.timedelta64(1, 'D') say",
    "m": "of durations; divide by a unit of your own, numpy.timedelta64(1, 'D') say",
}


class _Fields(NamedTuple):
    t: float
    x: np.ndarray
    y: np.ndarray
    context: Context


class Snapshot(_Fields):
    """The data of one time, with its values checked.

    Args:
        t: the time, a number.
        x: the inputs of the latent function, ``(N, D)``.
        y: the data; NaN (or masked) where missing. ``(N,)`` for the ready-made likelihoods, any shape for a likelihood
            of your own; the sampler checks it against the model before anything else.
        context: anything else that the mean and the likelihood need, a tree of arrays (covariates, exposures, …).
        labels: names of the rows of ``x``, such as stations, for the monitor, reports and tables.
    """

    labels: list[str] | None

    def __new__(cls, t: object, x: object, y: object, context: Context = None, labels: Sequence[object] | None = None):
        """Check and convert to NumPy arrays of floats."""
        x, y, time = as_inputs(x, "Snapshot: x"), as_floats(y, "Snapshot: y"), as_floats(t, "Snapshot: t")
        if time.ndim != 0 or not np.isfinite(time):
            raise DataError(f"Snapshot: t = {t} is not one finite number")
        if x.ndim != 2:
            raise DataError(f"Snapshot: x has shape {x.shape}, expected (N, D); for one dimension use x[:, None]")
        if x.shape[0] == 0 or x.shape[1] == 0:
            raise DataError(f"Snapshot: x is empty (shape {x.shape})")
        if y.size == 0:
            raise DataError(f"Snapshot: y is empty (shape {y.shape}); use NaN for missing values")
        _check_finite(x, "x", allow_nan=False)
        _check_finite(y, "y", allow_nan=True)
        for name, values in (("t", time), ("x", x), ("y", y)):
            _check_size(values, name)
        found = super().__new__(cls, float(time), x, y, as_context(context))
        found.labels = None if labels is None else [str(label) for label in labels]
        if found.labels is not None and len(found.labels) != len(x):
            raise DataError(f"Snapshot: {len(found.labels)} labels for {len(x)} rows of x; give one for each")
        return found


def as_context(context: Context) -> Context:
    """A tree of arrays: a list of numbers is one array, not a tree of numbers."""
    return jax.tree.map(_copied, context, is_leaf=_is_list_of_numbers)


def _is_list_of_numbers(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(one, numbers.Real) for one in value)


def as_inputs(value: object, what: str) -> np.ndarray:
    """Places as an array of floats, in which -0.0 is 0.0."""
    return as_floats(value, what) + 0.0


def as_floats(value: object, what: str) -> np.ndarray:
    """An array of floats of its own, or an error that says what is none."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in NOT_REAL:
        raise DataError(f"{what} is not an array of numbers, but {NOT_REAL[kind]}")
    try:
        return _copied(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what} is not an array of numbers ({error})") from error


def _copied(value: object, dtype: DTypeLike | None = None) -> np.ndarray:
    """An array of its own, for filters come back to the data long after a user's array holds others.

    What is masked is NaN: the number that lies under a mask is no value.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        value = np.ma.filled(value.astype(float), np.nan)
    return np.array(value, dtype=dtype)


def _check_finite(array: np.ndarray, name: str, allow_nan: bool) -> None:
    bad = np.isinf(array)
    if bad.any():
        first = _first(bad)
        raise DataError(
            f"Snapshot: {name}: {bad.sum()} of {array.size} values are infinite (first at index {first})"
            + ("; use NaN for missing values" if name == "y" else "")
        )
    if not allow_nan and np.isnan(array).any():
        bad = np.isnan(array)
        raise DataError(
            f"Snapshot: {name}: {bad.sum()} of {array.size} values are NaN (first at index {_first(bad)}); "
            "every input must be known"
        )


def _check_size(array: np.ndarray, name: str) -> None:
    with np.errstate(invalid="ignore"):
        large = np.abs(array) > MAX_VALUE
    if large.any():
        value = array[large].flat[0]
        raise DataError(
            f"Snapshot: {name}: {value:g} is beyond {MAX_VALUE:g}, and its square overflows; use other units"
        )


def _first(mask: np.ndarray) -> int | tuple[int, ...]:
    index = tuple(int(i) for i in np.argwhere(mask)[0])
    return index[0] if len(index) == 1 else index
