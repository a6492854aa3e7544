"""What a likelihood is told besides the latent: a number that is known, or an entry of the snapshot's context."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from seqgp.models.errors import DataError, ModelError
from seqgp.models.priors import Slot, check_positive

Amount = float | str | None  # a number, the name of an entry of the context, or nothing


def check_amount_given(who: str, what: str, amount: Any) -> None:
    """Raise unless it is the name of an entry of the context, or a number."""
    if isinstance(amount, bool) or not isinstance(amount, (str, numbers.Real)):
        raise ModelError(
            f"{who}: {what} = {amount!r}: expected a number, or the name of an entry of the context (one value a row)"
        )


def positive_parameter(slot: Slot, where: str) -> None:
    """Raise unless it is one positive number, or one prior of such."""
    if isinstance(slot, tuple):
        raise ModelError(f"{where} takes one number or prior, not a list of {len(slot)}")
    check_positive(slot, where)


def amount_of(amount: Amount, context: Any) -> Any:
    """A number that is known, or that the context has under a name."""
    return context[amount] if isinstance(amount, str) else amount


def check_amount(who: str, what: str, amount: Amount, y: np.ndarray, context: Any, positive: bool = True) -> None:
    """Raise, by name, unless there is one number, or one for each datum, all finite (and positive)."""
    if isinstance(amount, str) and (not isinstance(context, Mapping) or amount not in context):
        has = ", ".join(map(str, context)) if isinstance(context, Mapping) else "nothing"
        raise DataError(
            f"{who}: {what} {amount!r} is missing from the context, which has {has}; give "
            f"context={{{amount!r}: …}}, one value for each row of x"
        )
    named = f"{what} {amount!r}" if isinstance(amount, str) else what
    try:
        values = np.asarray(amount_of(amount, context), dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{who}: {named} is not an array of numbers ({error})") from error
    if values.shape not in ((), y.shape):
        raise DataError(f"{who}: {named} has shape {values.shape}, expected {y.shape}, one value for each row of x")
    bad = ~(np.isfinite(values) & ((values > 0) | (not positive)))
    if bad.any():
        kind = "positive numbers" if positive else "finite numbers"
        raise DataError(f"{who}: {named} must be {kind}, got {values[bad].flat[0]:g} among them")
