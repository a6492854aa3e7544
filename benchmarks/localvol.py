"""Speed of the local-volatility pricer, against its goals.

`python -m benchmarks.localvol` prints one line for each: the time of a surface of 75 options on one core, and its ratio
to the bare LAPACK tridiagonal solves of the same grid, measured in turns in the same run.
"""

import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.linalg import get_lapack_funcs
from threadpoolctl import threadpool_limits

import seqgp
from seqgp.apps.localvol import PricingPlan, plan_quotes, quote_prices
from seqgp.apps.localvol.march import implicit_matrices
from seqgp.apps.localvol.solver import local_volatility

Line = tuple[str, float, float | None]


def lines(repeats: int = 300) -> list[Line]:
    """Rows of name, value and goal; a row without a goal is for information."""
    with threadpool_limits(1):
        plan = jax.tree.map(jnp.asarray, surface_of_75())
        level = jnp.asarray(0.2)
        price = jax.jit(lambda plan, level: quote_prices(plan, lambda T, y: _skewed(level, T, y)))
        lower, middle, upper, _ = implicit_matrices(
            plan.grid, local_volatility(plan.grid, lambda T, y: _skewed(level, T, y))
        )
        start = np.asarray(plan.grid.payoff_curvature)
        batched = jax.jit(lambda low, mid, high, b: lax.linalg.tridiagonal_solve(low, mid, high, b[..., None]))
        low, mid, high = (np.asarray(v) for v in (lower, middle, upper))
        (solve,) = get_lapack_funcs(("gtsv",), (mid,))
        right = jnp.broadcast_to(start, middle.shape)
        ours, lapack, foreign = best_in_turns(
            [
                lambda: price(plan, level),
                lambda: _bare_solves(solve, low, mid, high, start),
                lambda: batched(lower, middle, upper, right),
            ],
            repeats,
        )
    return [
        ("local volatility: a surface of 75 options, ms", 1e3 * ours, 0.5),
        ("local volatility: ratio to bare LAPACK solves (dgtsv called once a step)", ours / lapack, 1.5),
        ("local volatility: ratio to bare LAPACK solves (all steps in one compiled call)", ours / foreign, None),
    ]


def surface_of_75() -> PricingPlan:
    """15 strikes within two deviations at each of 5 maturities, at the default grid."""
    maturity = np.repeat([1 / 12, 0.25, 0.5, 1.0, 2.0], 15)
    return plan_quotes(maturity, np.exp(np.tile(np.linspace(-2, 2, 15), 5) * 0.2 * np.sqrt(maturity)))


def best_in_turns(functions: Sequence[Callable], repeats: int) -> list[float]:
    """The least time of each, in seconds, called in turns so that all meet the same machine."""
    times = [[] for _ in functions]
    for function in functions:
        jax.block_until_ready(function())
    for _ in range(repeats):
        for function, taken in zip(functions, times):
            start = time.perf_counter()
            jax.block_until_ready(function())
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def _skewed(level, T, y):
    return level - 0.1 * y / (1 + T)


def _bare_solves(solve, lower, middle, upper, right):
    for low, mid, high in zip(lower, middle, upper):
        right = solve(low[1:], mid, high[:-1], right)[3]
    return right


if __name__ == "__main__":
    seqgp.enable_x64()
    for name, value, goal in lines():
        print(f"{name:80s} {value:8.3f}" + (f"   goal {goal:g}" if goal is not None else ""))
