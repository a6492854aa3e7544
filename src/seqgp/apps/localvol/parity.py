"""Forwards and discounts from put-call parity: `C − P = D (F − K)`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from seqgp.apps.localvol.tables import Column, QuotesError, Table, fail, row_label

SLICE = ["quote_date", "expiration"]
Given = float | Mapping | None
Exclusion = tuple[object, str]  # a row of the table, and the reason
_HUBER = 1.345
_RESIDUAL = 0.01  # residual of parity over the discounted forward, above which a pair misses its line
_MISSES = 0.75  # the quantile of residuals that may not miss it: two underlyings have half of them each
_RATE, _SLACK = 0.5, 0.05  # largest rate a year, and room for noise, of the logarithm of a discount


def forward_table(table: Table, forwards: Given, discounts: Given, min_pairs: int = 3) -> tuple[Table, list[Exclusion]]:
    """One row for each quote date and expiration: forward, discount, number of pairs, largest residual.

    Args:
        table: of `read_table`, without quotes that have no usable price.
        forwards: one number, a mapping from expiration (or its day), or None: from parity.
        discounts: likewise.
        min_pairs: the fewest strikes with both a call and a put from which both numbers are estimated.

    Returns:
        the table, and the quotes of expirations without enough pairs, each with the reason.

    Raises:
        QuotesError: for a forward or a discount that makes no sense, and where no expiration has enough pairs.
    """
    rows, left_out = [], []
    for (date, expiration), quotes in table.groupby(SLICE):
        forward, discount = (
            _given(given, name, expiration, quotes) for given, name in ((forwards, "forward"), (discounts, "discount"))
        )
        pairs = _pairs(quotes)
        if forward is None or discount is None:
            needed = min_pairs if forward is None and discount is None else 1
            if len(pairs) < needed:
                what = f"expiration {expiration:%Y-%m-%d} of {date:%Y-%m-%d} has {_count(pairs)} of call and put"
                why = f"{what}, parity needs {needed}; give forwards= and discounts= (--forward, --discount)"
                left_out += [(row, why) for row in quotes.index]
                continue
            forward, discount = _fit(pairs, forward, discount)
        residual = pairs["gap"] - discount * (forward - pairs["strike"])
        _check_sense(quotes, pairs, residual, forward, discount)
        worst = float(residual.abs().max()) if len(pairs) else np.nan
        rows.append((date, expiration, quotes["maturity"].median(), forward, discount, len(pairs), worst))
    if not rows:
        fail(left_out[0][1], [row for row, _ in left_out], row_label(table))
    names = [*SLICE, "maturity", "forward", "discount", "pairs", "largest_residual"]
    return pd.DataFrame(rows, columns=pd.Index(names)), left_out


def check_given(table: Table, given: Given, what: str) -> None:
    """Raise for numbers that no forward and no discount can be, and for expirations that the table does not have."""
    if given is None:
        return
    numbers = given if isinstance(given, Mapping) else {None: given}
    for name, value in numbers.items():
        if not (np.isfinite(value) and value > 0):
            of = "" if name is None else f" of {pd.Timestamp(name):%Y-%m-%d}"
            raise QuotesError(f"{what}: {value:g}{of}; expected a positive number")
    if not isinstance(given, Mapping):
        return
    known = sorted(table["expiration"].unique())
    held = {*known, *(name.normalize() for name in known)}
    strange = [name for name in map(pd.Timestamp, given) if name not in held]
    if strange:
        names, there = (", ".join(f"{name:%Y-%m-%d}" for name in some[:8]) for some in (strange, known))
        more = f" and {len(known) - 8} more" if len(known) > 8 else ""
        raise QuotesError(f"{what}: {names}: no expiration of the table, which has {there}{more}")


def _count(pairs: Table) -> str:
    return f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'}"


def _check_sense(quotes: Table, pairs: Table, residual: Column, forward: float, discount: float) -> None:
    """Raise for numbers that no market has: the prices are not those of one underlying, or not European ones."""
    (date, expiration), T = quotes[SLICE].iloc[0], float(quotes["maturity"].median())
    where = f"expiration {expiration:%Y-%m-%d} of {date:%Y-%m-%d}"
    remedy = "look at its prices, choose rows with where= (--where), or give forwards= and discounts="
    label, strikes = row_label(quotes), quotes["strike"]
    if not (np.isfinite(forward) and strikes.min() / 4 < forward < 4 * strikes.max()):
        at = f"strikes from {strikes.min():g} to {strikes.max():g}"
        fail(f"{where}: a forward of {forward:.4g} with {at}; {remedy}", quotes.index, label)
    if not (np.isfinite(discount) and discount > 0 and abs(np.log(discount)) <= _SLACK + _RATE * T):
        fail(f"{where}: parity gives a discount of {discount:.4g} for {T:.3g} years; {remedy}", quotes.index, label)
    if len(pairs) and (off := float(residual.abs().quantile(_MISSES, "lower"))) > max(
        _RESIDUAL * discount * forward, 3 * float(np.nan_to_num(pairs["width"].median()))
    ):
        worst = pairs.loc[residual.abs().sort_values(ascending=False).index, "strike"].iloc[:3]
        rows = quotes.index[quotes["strike"].isin(worst)]
        fail(
            f"{where}: a quarter of calls and puts miss parity by {off:.3g} or more, forward {forward:.5g} (two "
            f"underlyings in one table?); {remedy}; worst",
            rows,
            label,
        )


def _given(given: Given, name: str, expiration: pd.Timestamp, quotes: Table) -> float | None:
    if isinstance(given, Mapping):
        values = {pd.Timestamp(key): float(value) for key, value in given.items()}
        return values.get(expiration, values.get(expiration.normalize()))
    if given is not None:
        return float(given)
    return float(quotes[name].median()) if name in quotes else None


def _pairs(quotes: Table) -> Table:
    """Strikes with both a call and a put: `C − P` and the width of its market."""
    sides = [quotes[quotes["option_type"] == side].drop_duplicates("strike").set_index("strike") for side in "CP"]
    call, put = (side.loc[sides[0].index.intersection(sides[1].index)] for side in sides)
    width = call["half_spread"] + put["half_spread"]
    gap = call["price"] - put["price"]
    return pd.DataFrame({"strike": call.index, "gap": gap.to_numpy(), "width": width.to_numpy()})


def _fit(pairs: Table, forward: float | None, discount: float | None) -> tuple[float, float]:
    """Weighted least squares with Huber's weights, from the least-absolute fit's neighbourhood."""
    strike, gap = pairs["strike"].to_numpy(float), pairs["gap"].to_numpy(float)
    width = pairs["width"].to_numpy(float)
    known = np.isfinite(width) & (width > 0)
    base = np.where(known, width, np.median(width[known]) if known.any() else 1.0) ** -2.0
    if discount is not None:
        return _weighted_median(gap / discount + strike, base), discount
    if forward is not None:
        apart = forward - strike
        return forward, _weighted_median(gap / apart, base * apart**2)
    slope, level = _median_line(strike, gap)
    for _ in range(50):
        residual = (gap - level - slope * strike) * np.sqrt(base)
        scale = max(1.4826 * np.median(np.abs(residual)), 1e-12 * np.abs(gap * np.sqrt(base)).max(), 1e-300)
        weight = base * np.minimum(1.0, _HUBER * scale / np.maximum(np.abs(residual), 1e-300))
        centre = np.average(strike, weights=weight)
        middle = np.average(gap, weights=weight)
        slope = np.sum(weight * (strike - centre) * (gap - middle)) / np.sum(weight * (strike - centre) ** 2)
        level = middle - slope * centre
    return float(-level / slope), float(-slope)


def _median_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Theil and Sen: the median of the slopes of all pairs stands up to a quarter of outliers."""
    i, j = np.triu_indices(len(x), 1)
    slope = float(np.median((y[j] - y[i]) / (x[j] - x[i])))
    return slope, float(np.median(y - slope * x))


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(share, share[-1] / 2)])
