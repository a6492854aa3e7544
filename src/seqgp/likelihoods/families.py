"""What ready-made likelihoods share: checks of their parameters and of the data."""

from __future__ import annotations

import numpy as np

from seqgp.base.errors import DataError
from seqgp.base.priors import Slot, as_slot
from seqgp.likelihoods.context import positive_parameter


def check_positive_parameters(who: str, **slots: Slot) -> None:
    """Raise, by name, unless each is a positive number or a prior of such."""
    for name, slot in slots.items():
        positive_parameter(as_slot(slot, f"{who}: {name}"), f"{who}: {name}")


def refuse_values(who: str, y: np.ndarray, bad: np.ndarray, what: str) -> None:
    """Raise if any value of the data is not what the family takes; NaN is missing, and passes."""
    bad = bad & ~np.isnan(y)
    if bad.any():
        first = int(np.argmax(bad.ravel()))
        raise DataError(
            f"{who}: {bad.sum()} of {y.size} values of y are {what} (first at index {first}: {y.ravel()[first]:g})"
        )


def check_counts(who: str, y: np.ndarray) -> None:
    """Raise unless the data are counts; NaN is missing, and passes."""
    refuse_values(who, y, y < 0, "negative, and counts are not")
    refuse_values(who, y, y != np.floor(y), "not whole, and counts are")
