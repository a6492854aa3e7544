"""What a likelihood takes besides the latent: a number that is known, or an entry of the snapshot's context."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import Kept, check_positive
from seqgp.base.snapshot import Context
from seqgp.linalg.types import ArrayLike

Amount = float | str | None  # a number, the name of an entry of the context, or nothing


class Requirement(NamedTuple):
    """An amount that a likelihood cannot do without."""

    what: str  # trials, exposure, …
    amount: float | str
    positive: bool = True


def check_amount_given(who: str, what: str, amount: object, positive: bool = True) -> None:
    """Raise unless it is the name of an entry of the context, or a number (that is positive)."""
    if isinstance(amount, bool) or not isinstance(amount, (str, numbers.Real)):
        raise ModelError(
            f"{who}: {what} = {amount!r}: expected a number, or the name of an entry of the context (one value a row)"
        )
    if not isinstance(amount, str) and not _usable(float(amount), positive):
        raise ModelError(f"{who}: {what} = {amount} is not {'positive and ' * positive}finite")


def positive_parameter(slot: Kept, where: str) -> None:
    """Raise unless it is one positive number, or one prior of such."""
    if isinstance(slot, tuple):
        raise ModelError(f"{where} takes one number or prior, not a list of {len(slot)}")
    check_positive(slot, where)


def amount_of(amount: Amount, context: Context) -> Any:
    """A number that is known, or that the context has under a name."""
    return context[amount] if isinstance(amount, str) else amount


def check_amount(who: str, requirement: Requirement, wanted: Bool[np.ndarray, "*data"], context: Context) -> None:
    """Raise, by name, unless there is one number, or one for each datum: finite (and positive) where it is wanted."""
    what, amount, positive = requirement
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
    if values.shape not in ((), wanted.shape):
        raise DataError(
            f"{who}: {named} has shape {values.shape}, expected {wanted.shape}, one value for each row of x"
        )
    bad = ~_usable(values, positive) & wanted
    if bad.any():
        kind, first = "positive numbers" if positive else "finite numbers", int(np.argmax(bad.ravel()))
        value = np.broadcast_to(values, bad.shape).ravel()[first]
        raise DataError(
            f"{who}: {named} must be {kind}, got {value:g} among them (first at index {first}); where nothing was "
            "measured, y is NaN"
        )


def without_gaps(requirement: Sequence[Requirement], context: Context) -> Context:
    """The context with a number in place of each that cannot be used: such stand beside missing data alone."""
    filled = {}
    for _, amount, positive in requirement:
        values = np.asarray(context[amount]) if isinstance(amount, str) else np.ones(())
        usable = _usable(values, positive)
        if not usable.all():
            filled[amount] = np.where(usable, values, values[usable].flat[0] if usable.any() else 1.0)
    return {**context, **filled} if filled else context


def _usable(values: ArrayLike | float, positive: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & ((values > 0) | (not positive))
