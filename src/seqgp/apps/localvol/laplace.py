"""The most probable surface and parameters, with Laplace's bands: a recalibration in about a second.

Gauss–Newton: prices are linearised at the current surface, the parameters maximise their posterior given the linearised
data, the surface is its posterior mean, and so on until it stays. Earlier days keep their linearisation.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

import seqgp
from seqgp.apps.localvol.linearised import (
    Days,
    blank,
    compiled_posterior,
    compressed,
    linearise,
    value_and_gradient,
    widened,
)

ROUNDS = 16  # of linearisation, at most
TOLERANCE = 3e-3  # largest change of f between rounds at which the search ends
ITERATIONS = 40  # of the search for the parameters, in each round
NODES = 32  # values of the parameters that draws are spread over


def one_thread() -> Any:
    """Matrices here are small: threads of the linear algebra library wait for each other longer than they work."""
    return threadpool_limits(1, user_api="blas")


class LaplaceState(NamedTuple):
    """Draws of the Laplace approximation after a day, and the linearised days that the next one needs."""

    t: float
    step: int
    latent: Float[np.ndarray, "draws N"]
    parameters: dict[str, np.ndarray]
    z: Float[np.ndarray, "draws d"]
    days: Days
    mode: Float[np.ndarray, " d"]
    f: Float[np.ndarray, " N"]
    fingerprint: str
    nodes: Float[np.ndarray, "nodes d"]

    @property
    def draws(self) -> int:
        """The number of draws."""
        return len(self.z)


class LaplaceInfo(NamedTuple):
    """What a recalibration cost, and whether it converged."""

    seconds: float
    rounds: int
    evaluations: int
    log_posterior: float
    warnings: tuple[str, ...]
    min_ess: float = float("nan")
    max_rhat: float = float("nan")


class Laplace:
    """The mode and a Gaussian around it, day after day.

    Args:
        model: of `LocalVolatility`.
        draws: how many draws of the approximation to keep.
        history: how many days the surface is inferred from, the present one included.
    """

    def __init__(self, model: seqgp.Model, draws: int = 1000, history: int = 5):
        if "noise" not in model.slots() or "stickiness" not in model.slots():
            raise ValueError("Laplace: expected the model of a LocalVolatility, model.model")
        self.model, self.draws, self.history = model, draws, history
        self.robust = model.likelihood.function.__name__ == "_student"

    def init(self, key: Key[Array, ""], snapshot: seqgp.Snapshot) -> tuple[LaplaceState, LaplaceInfo]:
        """The first day."""
        with one_thread():
            return self._update(key, None, snapshot)

    def step(
        self, key: Key[Array, ""], state: LaplaceState, snapshot: seqgp.Snapshot
    ) -> tuple[LaplaceState, LaplaceInfo]:
        """A further day."""
        if not snapshot.t > state.t:
            raise seqgp.DataError(f"Laplace: t = {snapshot.t:g} is not after the last day, t = {state.t:g}")
        with one_thread():
            return self._update(key, state, snapshot)

    def predict(self, key: Key[Array, ""], state: LaplaceState, snapshot: seqgp.Snapshot) -> Float[np.ndarray, "M N"]:
        """Draws of `f` on a later date, one for each draw of the parameters."""
        with one_thread():
            return self._draw_f(key, snapshot, state.days, state.nodes)

    def _update(self, key, before: LaplaceState | None, snapshot):
        start = time.perf_counter()
        key_z, key_f = jax.random.split(key)
        columns = self._design(snapshot).shape[1]
        past = blank(self.history, len(snapshot.x), snapshot.t, columns) if before is None else before.days
        z = np.asarray(self.model.prior_of_z()[0] if before is None else before.mode)
        f = self._first_f(before, snapshot, z)
        moved, rounds, evaluations, damping, last = np.inf, 0, 0, 1.0, np.zeros(len(f))
        days, value = past, np.nan
        while moved > TOLERANCE and rounds < ROUNDS:
            fresh = self._linearised(f, z, snapshot)
            days = Days(*(np.concatenate([old[1:], new]) for old, new in zip(past, fresh)))
            z, value, count = self._best(snapshot.x, days, z)
            step = np.clip(np.asarray(self._posterior(days, z, snapshot)[0]) - f, -1.0, 1.0)
            damping = damping / 2 if step @ last < 0 else min(1.0, 2 * damping)  # steps that turn back go round
            moved, f, last = float(np.max(np.abs(step))), f + damping * step, step
            rounds, evaluations = rounds + 1, evaluations + count
        parameters = self.model.parameters(jnp.asarray(z))
        days = days._replace(noise=np.append(days.noise[:-1], parameters["noise"]))
        nodes = self._nodes(key_z, snapshot.x, days, z)
        draws = self._draw_f(key_f, snapshot, days, nodes)
        zs = np.repeat(nodes, self._shares(), axis=0)
        state = LaplaceState(
            snapshot.t,
            1 if before is None else before.step + 1,
            draws,
            {name: np.asarray(v) for name, v in self.model.natural(jnp.asarray(zs)).items()},
            zs,
            days,
            z,
            f,
            str(self.model.fingerprint()),
            nodes,
        )
        said = () if moved <= TOLERANCE else (f"the surface still moves by {moved:.2g} after {ROUNDS} rounds",)
        return state, LaplaceInfo(time.perf_counter() - start, rounds, evaluations, -value, said)

    def _first_f(self, before, snapshot, z) -> np.ndarray:
        if before is None:
            return np.asarray(
                self.model.mean_function.value(self.model.parameters(jnp.asarray(z)), self._design(snapshot))
            )
        return np.asarray(self._posterior(before.days, z, snapshot)[0])

    def _design(self, snapshot: seqgp.Snapshot) -> np.ndarray:
        return self.model.mean_function.design(snapshot.t, snapshot.x, snapshot.context)

    def _posterior(self, days: Days, z: np.ndarray, snapshot: seqgp.Snapshot) -> tuple[Array, Array]:
        """Mean and covariance of `f` on the date of a snapshot."""
        t = jnp.asarray(float(snapshot.t))
        return compiled_posterior(self.model, snapshot.x, days, jnp.asarray(z), t, self._design(snapshot))

    def _linearised(self, f: np.ndarray, z: np.ndarray, snapshot: seqgp.Snapshot) -> Days:
        parameters = self.model.parameters(jnp.asarray(z))
        s, seen = parameters["stickiness"], ~np.isnan(snapshot.y)
        found = linearise(jnp.asarray(f), snapshot.context, s)
        mean, slope, tilt, unit = (np.asarray(v)[seen] for v in (*found, snapshot.context["unit"]))
        y = np.asarray(snapshot.y)[seen]
        if self.robust:
            unit = unit * np.sqrt(widened(y, mean, float(parameters["noise"]) * unit))
        left_over = y - mean + slope @ f + tilt * float(s)
        return compressed(snapshot.t, left_over, slope, tilt, unit, self._design(snapshot))

    def _best(self, x, days: Days, z) -> tuple[np.ndarray, float, int]:
        def objective(z):
            value, gradient = value_and_gradient(self.model, x, days, jnp.asarray(z))
            return float(value), np.nan_to_num(np.asarray(gradient))

        found = minimize(
            objective,
            z,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-8, 8)] * len(z),
            options={"maxiter": ITERATIONS, "ftol": 1e-6},
        )
        return found.x, float(found.fun), int(found.nfev)

    def _nodes(self, key, x, days: Days, z) -> np.ndarray:
        """Values of the parameters, drawn from the Gaussian around their mode."""
        size, step = len(z), 1e-3
        rows = []
        for i in range(size):
            ends = [
                np.asarray(value_and_gradient(self.model, x, days, jnp.asarray(z + sign * step * np.eye(size)[i]))[1])
                for sign in (-1, 1)
            ]
            rows.append((ends[1] - ends[0]) / (2 * step))
        prior = np.diag(self.model.prior_of_z()[1])
        hessian = (np.array(rows) + np.array(rows).T) / 2
        white = np.sqrt(prior)[:, None] * hessian * np.sqrt(prior)
        values, vectors = np.linalg.eigh(white)
        root = np.sqrt(prior)[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
        half = np.asarray(jax.random.normal(key, (NODES // 2, size)))
        return z + np.concatenate([half, -half]) @ root.T

    def _shares(self) -> list[int]:
        """How many draws each value of the parameters has: equally many, up to one."""
        return [len(range(i, self.draws, NODES)) for i in range(NODES)]

    def _draw_f(self, key, snapshot: seqgp.Snapshot, days: Days, nodes: np.ndarray) -> np.ndarray:
        found = []
        for i, (z, share) in enumerate(zip(nodes, self._shares())):
            mean, cov = self._posterior(days, z, snapshot)
            values, vectors = np.linalg.eigh(np.asarray(cov))
            white = np.asarray(jax.random.normal(jax.random.fold_in(key, i), (share, len(values))))
            found.append(np.asarray(mean) + white @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)
        return np.concatenate(found)
