"""The mesh of the forward equation: nodes in log-moneyness, steps in time, and what they fix in advance.

Nothing here depends on the volatility, so everything is computed once, in NumPy, and handed to the compiled solver as
arguments: two days with the same `GridSize` share one compiled program.
"""

import math
import re
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

DAMPED_INTERVALS = 2
_STEP_POWER = 1.7  # the exponent at which steps ~ T^p meet steps in proportion to T without a jump
_SIZE_ROUNDING = 8  # sizes are rounded up to a multiple, so that nearby days compile once


class GridSize(NamedTuple):
    """How fine the mesh is: `nodes` in log-moneyness and time `steps` (tridiagonal solves)."""

    nodes: int
    steps: int


class Mesh(eqx.Module):
    """A mesh of the equation `u_T = ½ σ² k² u_kk` in forward moneyness `k = e^y`.

    Attributes:
        y: log-moneyness of the nodes; zero is one of them.
        times: where each step evaluates the volatility.
        half_steps: the implicit time of each solve: half a Crank–Nicolson step, or a whole damped one.
        gains: 2 for a Crank–Nicolson step, 1 for a damped one.
        below: weight of the lower neighbour in the second difference.
        above: weight of the upper neighbour in the second difference.
        compact_below: weight of the lower neighbour in the fourth-order average of `u_kk`.
        compact_above: weight of the upper neighbour in the fourth-order average of `u_kk`.
        start: time value at `T = 0`: zero but for the kink, spread over its cell.
        payoff_curvature: second difference of the payoff: its kink.
    """

    y: Float[np.ndarray, " nodes"]
    times: Float[np.ndarray, " steps"]
    half_steps: Float[np.ndarray, " steps"]
    gains: Float[np.ndarray, " steps"]
    below: Float[np.ndarray, " interior"]
    above: Float[np.ndarray, " interior"]
    compact_below: Float[np.ndarray, " interior"]
    compact_above: Float[np.ndarray, " interior"]
    start: Float[np.ndarray, " nodes"]
    payoff_curvature: Float[np.ndarray, " interior"]

    @property
    def size(self) -> GridSize:
        """Nodes and steps."""
        return GridSize(self.y.shape[0], self.times.shape[0])


def requested_size(
    error_bp: float, maturities: Float[np.ndarray, " maturities"], scale: float, width: float
) -> GridSize:
    """Sizes for a requested error, in basis points of implied volatility at 20% and within two deviations.

    The error is of second order in the time step and of fourth order in the strike step; the constants are measured
    against closed forms, with half of the error left as margin.
    """
    steps = np.sum(np.maximum(1.0, 19 * error_bp**-0.5 * np.diff(_clock(maturities), prepend=0.0)))
    nodes = 21 * math.asinh(width / scale) * error_bp**-0.25
    return GridSize(_round_up(nodes) + 1, _round_up(steps + DAMPED_INTERVALS))


def build_grid(
    maturities: ArrayLike,
    log_moneyness: ArrayLike | None = None,
    grid: str | GridSize | tuple[int, int] = "1bp",
    volatility: float = 0.25,
) -> tuple[Mesh, Int[np.ndarray, " maturities"]]:
    """Choose nodes and steps for the given maturities.

    Args:
        maturities: in years, positive, in increasing order.
        log_moneyness: `log(K/F)` of the quotes, if known: the nodes reach well beyond them.
        grid: a requested error, as in `"1bp"`, or the sizes.
        volatility: the typical level; it places the nodes and does not enter the prices.

    Returns:
        the grid, and for each maturity the number of steps that reach it.
    """
    times = _checked_maturities(maturities)
    deviations = volatility * np.sqrt(times[[0, -1]])
    reach = 0.0 if log_moneyness is None else float(np.max(np.abs(log_moneyness), initial=0.0))
    width = max(6 * float(deviations[1]), 2.5 * reach)
    scale = 1.2 * float(deviations[0])
    size = _parse_size(grid, times, scale, width)
    intervals = size.steps - DAMPED_INTERVALS
    if intervals < max(len(times), DAMPED_INTERVALS):
        raise ValueError(
            f"grid: {size.steps} steps are too few for {len(times)} maturities; "
            f"give at least {max(len(times), DAMPED_INTERVALS) + DAMPED_INTERVALS}"
        )
    nodes_t, index = _time_nodes(times, intervals)
    return _assemble(_strike_nodes(size.nodes, scale, width), nodes_t), index + np.minimum(index, DAMPED_INTERVALS)


def _checked_maturities(maturities: ArrayLike) -> Float[np.ndarray, " maturities"]:
    times = np.atleast_1d(np.asarray(maturities, dtype=float))
    if times.ndim != 1 or times.size == 0:
        raise ValueError(f"maturities: expected a number or a list of numbers, got shape {times.shape}")
    if not np.all(np.isfinite(times)) or np.any(times <= 0):
        raise ValueError(f"maturities: {times[~(times > 0)][0]} is not a positive number of years")
    if np.any(np.diff(times) <= 0):
        raise ValueError("maturities: expected in increasing order, without repetition")
    return times


def _parse_size(grid, times, scale: float, width: float) -> GridSize:
    if isinstance(grid, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*bp\s*", grid)
        error_bp = float(match.group(1)) if match else 0.0
        if not error_bp > 0:
            raise ValueError(f"grid={grid!r}: expected an error such as '1bp' or '0.5bp', or a GridSize(nodes, steps)")
        return requested_size(error_bp, times, scale, width)
    nodes, steps = grid
    if nodes < 9 or nodes % 2 == 0:
        raise ValueError(f"grid: nodes = {nodes}; expected an odd number, at least 9, so that one lies at the money")
    return GridSize(int(nodes), int(steps))


def _round_up(size: float) -> int:
    return _SIZE_ROUNDING * math.ceil(size / _SIZE_ROUNDING)


def _strike_nodes(nodes: int, scale: float, width: float) -> Float[np.ndarray, " nodes"]:
    return scale * np.sinh(np.linspace(-1, 1, nodes) * np.arcsinh(width / scale))


def _time_nodes(times, intervals: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with steps as `T^(1 − 1/p)` up to the first maturity and in proportion to `T` after it, hit exactly.

    Such steps make the error of Crank–Nicolson the same at all maturities.
    """
    clock = _clock(times)
    index = np.cumsum(_apportion(np.diff(clock, prepend=0.0), intervals))
    ticks = np.interp(np.arange(intervals + 1), np.append(0, index), np.append(0.0, clock))
    nodes = times[0] * np.where(ticks < 1, ticks**_STEP_POWER, np.exp(_STEP_POWER * (ticks - 1)))
    nodes[index] = times
    return nodes, index


def _clock(times) -> Float[np.ndarray, " maturities"]:
    """The time in which steps are equal: one at the first maturity."""
    return 1 + np.log(times / times[0]) / _STEP_POWER


def _apportion(shares: np.ndarray, total: int) -> Int[np.ndarray, " maturities"]:
    """Whole numbers, at least one each, as near to proportion as their total allows."""
    low, high = 0.0, total / shares.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(np.maximum(1.0, middle * shares)) < total else (low, middle)
    wanted = np.maximum(1.0, low * shares)
    counts = np.floor(wanted + 1e-9).astype(int)
    counts[np.argsort(counts - wanted, kind="stable")[: total - counts.sum()]] += 1
    return counts


def _assemble(y, nodes_t) -> Mesh:
    k, centre = np.exp(y), len(y) // 2
    down, up = np.diff(k)[:-1], np.diff(k)[1:]
    below, above = 2 / (down * (down + up)), 2 / (up * (down + up))
    # The averages that are exact for polynomials of degree four; one twelfth each where the nodes are equidistant.
    compact_below = (down**2 + down * up - up**2) / (6 * down * (down + up))
    compact_above = (up**2 + down * up - down**2) / (6 * up * (down + up))
    # A kink at a node lacks the variance that the averages take away; a twelfth of a cell restores it.
    start = np.zeros_like(k)
    start[centre] = (k[centre + 1] - k[centre - 1]) / 24
    curvature = np.zeros_like(below)
    curvature[centre - 1] = below[centre - 1] * (1 - k[centre - 1])
    steps = np.diff(nodes_t)
    damped = np.repeat(steps[:DAMPED_INTERVALS] / 2, 2)
    half_steps = np.concatenate([damped, steps[DAMPED_INTERVALS:] / 2])
    gains = np.where(np.arange(len(half_steps)) < len(damped), 1.0, 2.0)
    times = np.concatenate([[0.0], np.cumsum(gains * half_steps)[:-1]]) + gains * half_steps / 2
    return Mesh(y, times, half_steps, gains, below, above, compact_below, compact_above, start, curvature)
