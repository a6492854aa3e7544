"""Forwards and discounts from put-call parity: `C − P = D (F − K)`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from seqgp.apps.localvol.tables import Table, fail, row_label

SLICE = ["quote_date", "expiration"]
Given = float | Mapping | None
_HUBER = 1.345


def forward_table(table: Table, forwards: Given, discounts: Given, min_pairs: int = 3) -> Table:
    """One row for each quote date and expiration: forward, discount, number of pairs, largest residual.

    Args:
        table: of `read_table`, without quotes that have no usable price.
        forwards: one number, a mapping from expiration, or None: from parity.
        discounts: likewise.
        min_pairs: the fewest strikes with both a call and a put from which both numbers are estimated.

    Raises:
        QuotesError: for an expiration without enough pairs.
    """
    rows = []
    for (date, expiration), quotes in table.groupby(SLICE):
        forward, discount = (
            _given(given, name, expiration, quotes) for given, name in ((forwards, "forward"), (discounts, "discount"))
        )
        pairs = _pairs(quotes)
        if forward is None or discount is None:
            needed = min_pairs if forward is None and discount is None else 1
            if len(pairs) < needed:
                what = f"expiration {expiration:%Y-%m-%d} of {date:%Y-%m-%d} has {len(pairs)} pairs of call and put"
                fail(f"{what}, parity needs {needed}; give forwards= and discounts=", quotes.index, row_label(table))
            forward, discount = _fit(pairs, forward, discount)
        residual = pairs["gap"] - discount * (forward - pairs["strike"])
        worst = float(residual.abs().max()) if len(pairs) else np.nan
        rows.append((date, expiration, quotes["maturity"].median(), forward, discount, len(pairs), worst))
    names = [*SLICE, "maturity", "forward", "discount", "pairs", "largest_residual"]
    return pd.DataFrame(rows, columns=pd.Index(names))


def _given(given: Given, name: str, expiration: pd.Timestamp, quotes: Table) -> float | None:
    if isinstance(given, Mapping):
        values = {pd.Timestamp(key): value for key, value in given.items()}
        return float(values[expiration]) if expiration in values else None
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
