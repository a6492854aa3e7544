"""The market of the paper's section 4.2: volatilities drawn from the model, prices of calls with noise."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import seqgp
from seqgp.apps.localvol import LocalVolatility, PricingPlan, knot_prices, plan_quotes

MATURITIES = np.linspace(0.2, 1.0, 5)
MONEYNESS = np.linspace(0.5, 1.2, 15)  # strikes over spot
LENGTHSCALES, TIME, SCALE, LEVEL, NOISE = (0.5, 0.3), 0.5, 0.75, -1.5, 0.05
SPOT, DRIFT, VOLATILITY = 1000.0, 0.04, 0.2


class Market(NamedTuple):
    """Simulated data, and what they were made from."""

    model: LocalVolatility
    snapshots: list[seqgp.Snapshot]
    plans: list[PricingPlan]
    volatility: Float[np.ndarray, "T 5 15"]
    prices: Float[np.ndarray, "T 75"]
    moneyness: Float[np.ndarray, "15"]
    truth: dict[str, float]


def market_model() -> LocalVolatility:
    """Knots at the quotes, the paper's priors: all up to 1, level and noise up to 0.5."""
    unit, half = seqgp.ScaledSigmoid(0.0, 1.0), seqgp.ScaledSigmoid(0.0, 0.5)
    return LocalVolatility(
        MATURITIES,
        np.log(MONEYNESS),
        noise="price",
        time=seqgp.kernels.SquaredExponential(lengthscale=unit),
        lengthscales=(unit, unit),
        scale=unit,
        level=half,
        noise_prior=half,
        grid=(73, 40),
    )


def simulate_market(seed: int, steps: int, model: LocalVolatility) -> Market:
    """Snapshots at equidistant times on [0, 1]; the spot follows a geometric Brownian motion, rates are zero."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, 1.0, steps)
    spot = SPOT * np.exp(_brownian(rng, times))
    level = LEVEL + SCALE * _field(rng, times, model.x)
    plans, prices, snapshots = [], [], []
    price = jax.jit(knot_prices)
    for t, s, f in zip(times, spot, level):
        T, K = (a.ravel() for a in np.meshgrid(MATURITIES, s * MONEYNESS, indexing="ij"))
        plan = plan_quotes(T, K, s, grid=model.grid, knots=(model.maturities, model.log_moneyness))
        plans.append(plan)
        prices.append(np.asarray(price(plan, model.values(f))))
        snapshots.append(model.planned(float(t), plan, prices[-1] + NOISE * rng.standard_normal(len(K))))
    truth = {"space.lengthscale[0]": LENGTHSCALES[0], "space.lengthscale[1]": LENGTHSCALES[1]}
    truth |= {"time.lengthscale": TIME, "scale": SCALE, "mean": LEVEL, "noise": NOISE}
    volatility = np.asarray(model.values(jnp.asarray(level)))
    return Market(model, snapshots, plans, volatility, np.array(prices), MONEYNESS, truth)


def _brownian(rng: np.random.Generator, times: np.ndarray) -> np.ndarray:
    steps = np.diff(times, prepend=0.0)
    moves = (DRIFT - VOLATILITY**2 / 2) * steps + VOLATILITY * np.sqrt(steps) * rng.standard_normal(len(steps))
    return np.cumsum(moves)


def _field(rng: np.random.Generator, times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A draw of the process of unit scale at all times and knots."""

    def root(points: np.ndarray) -> np.ndarray:
        squared = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
        return np.linalg.cholesky(np.exp(-0.5 * squared) + 1e-10 * np.eye(len(points)))

    in_time, in_space = root(times[:, None] / TIME), root(x / np.array(LENGTHSCALES))
    return in_time @ rng.standard_normal((len(times), len(x))) @ in_space.T
