"""Long streams of few stations, simulated from the prior of the model that they are fitted with."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp

KERNELS = ("Matern12", "Matern32", "Matern52", "SquaredExponential")
VARIANTS = ("complete", "missing", "stations", "irregular")


class Stream(NamedTuple):
    """Simulated snapshots, and what they were simulated from."""

    model: seqgp.Model
    snapshots: list[seqgp.Snapshot]
    z: np.ndarray  # the true parameters, on the Gaussian scale
    last_f: np.ndarray  # the true f at the last snapshot's inputs


def stream_model(kernel: str) -> seqgp.Model:
    """Five unknown parameters; times are counted in days, say, and stations lie on the unit square."""
    in_time = getattr(seqgp.kernels, kernel)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=in_time(dist.LogNormal(np.log(5.0), 0.5)),
            space=seqgp.kernels.Matern32(dist.LogNormal(np.log(0.5), 0.5)),
            scale=dist.LogNormal(0.0, 0.5),
        ),
        mean=dist.Normal(0.0, 1.0),
        likelihood=seqgp.likelihoods.Gaussian(dist.LogNormal(np.log(0.3), 0.5)),
    )


def simulate_stream(kernel: str, variant: str, seed: int, n: int = 10, steps: int = 200) -> Stream:
    """A stream whose parameters are drawn from the prior, so that intervals cover them as often as they should.

    Args:
        kernel: of time.
        variant: ``"complete"``; ``"missing"``: a fifth of the values at random; ``"stations"``: some come late, some
            go, some pause; ``"irregular"``: times between 0.2 and 1.8 apart.
        seed: of the data.
        n: stations.
        steps: snapshots.
    """
    rng = np.random.default_rng([seed, KERNELS.index(kernel), VARIANTS.index(variant)])
    model = stream_model(kernel)
    mean, spread = model.prior_of_z()
    z = mean + np.sqrt(np.diag(spread)) * rng.standard_normal(len(mean))
    truth = {name: float(value) for name, value in model.parameters(jnp.asarray(z)).items()}
    times = np.cumsum(rng.uniform(0.2, 1.8, steps)) if variant == "irregular" else np.arange(steps, dtype=float)
    x = rng.uniform(size=(n, 2))
    f = truth["mean"] + truth["scale"] * _field(rng, model, truth, times, x)
    y = f + truth["noise"] * rng.standard_normal(f.shape)
    if variant == "missing":
        y = np.where(rng.uniform(size=y.shape) < 0.2, np.nan, y)
    there = _presence(steps, n) if variant == "stations" else np.ones((steps, n), bool)
    snapshots = [seqgp.Snapshot(t, x[row], y[i, row]) for i, (t, row) in enumerate(zip(times, there))]
    return Stream(model, snapshots, z, f[-1, there[-1]])


def _field(rng: np.random.Generator, model: seqgp.Model, truth: dict[str, float], times: np.ndarray, x: np.ndarray):
    ((_, term),) = model.kernel.terms()
    roots = []
    for part, points, name in ((term.time, times[:, None], "time"), (term.space, x, "space")):
        at = jnp.asarray(points)
        own = {"lengthscale": jnp.asarray(truth[f"{name}.lengthscale"])}
        covariance = np.asarray(part.covariance(part.prepare(at, at), own))
        values, vectors = np.linalg.eigh(covariance)  # a smooth kernel has no Cholesky factor
        roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    return roots[0] @ rng.standard_normal((len(times), len(x))) @ roots[1].T


def _presence(steps: int, n: int) -> np.ndarray:
    """A quarter of the stations comes late, a quarter leaves and comes back, the others stay."""
    there, few = np.ones((steps, n), bool), max(n // 4, 1)
    for i in range(few):
        there[: (i + 1) * steps // (few + 2), n - 1 - i] = False
        pause = slice(steps // 3 + i * steps // 10, steps // 3 + i * steps // 10 + steps // 4)
        there[pause, n - 1 - few - i] = False
    return there
