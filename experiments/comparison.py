"""The sequential posterior against the exact one, on the paper's third comparison: what both experiments share.

The exact posterior at each time is given all data up to it: from the collapsed sampler (the latent integrated out),
or, for data that are not Gaussian, from the full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import seqgp
from experiments.simulate import regression_model
from seqgp.reference import CollapsedSampler, predictive_log_score

JITTER = 1e-8


class DataSet(NamedTuple):
    """Simulated snapshots (one more than are used, to be predicted), and the truth."""

    model: seqgp.Model
    snapshots: list[seqgp.Snapshot]
    f: list[np.ndarray]  # the true latent function, by time
    parameters: dict[str, Any]


class Summary(NamedTuple):
    """A posterior at one time."""

    mean: np.ndarray  # of f, (N,)
    sd: np.ndarray
    coverage: float  # of the true f by central 95% intervals
    z_mean: np.ndarray  # of the parameters, on the Gaussian scale
    z_sd: np.ndarray
    log_score: float  # of the next snapshot, jointly
    seconds: float  # without compilation; of this time alone
    ess: float  # the smallest of the latent, or the effective particles
    rhat: float


def counts_model() -> seqgp.Model:
    """The same latent, seen through counts: ``y ~ Poisson(exp(f + mean))``."""
    gaussian = regression_model()
    return seqgp.Model(gaussian.kernel, seqgp.likelihoods.Poisson(), mean=seqgp.ScaledSigmoid(0, 3))


def simulate(
    seed: int,
    n: int = 100,
    steps: int = 10,
    counts: bool = False,
    spacing: float | None = None,
    in_time: type = seqgp.kernels.SquaredExponential,
) -> DataSet:
    """The paper's data: lengthscales uniform on (0, √10), inputs uniform on the unit square, times on [0, 1]."""
    rng = np.random.default_rng(seed)
    time, *space = rng.uniform(0, 10**0.5, size=3)
    mean = 1.5 if counts else 0.5
    times = np.arange(steps + 1) * (1 / max(steps - 1, 1) if spacing is None else spacing)
    x = rng.uniform(size=(steps + 1, n, 2))
    flat, t = x.reshape(-1, 2), np.repeat(times, n)
    kernel = in_time(time)
    covariance = np.array(kernel.covariance(kernel.prepare(t[:, None], t[:, None]), {"lengthscale": time}))
    squared = sum(((flat[:, None, d] - flat[:, d]) / space[d]) ** 2 for d in range(2))
    covariance = covariance * np.exp(-0.5 * squared) + JITTER * np.eye(len(t))
    f = (mean + np.linalg.cholesky(covariance) @ rng.normal(size=len(t))).reshape(steps + 1, n)
    y = rng.poisson(np.exp(f)).astype(float) if counts else f + 0.3 * rng.normal(size=f.shape)
    snapshots = [seqgp.Snapshot(t=times[i], x=x[i], y=y[i]) for i in range(steps + 1)]
    truth = {"time.lengthscale": time, "space.lengthscale": space, "scale": 1.0, "mean": mean}
    if not counts:
        truth["noise"] = 0.3
    return DataSet(counts_model() if counts else regression_model(), snapshots, list(f), truth)


def summarise(f: Any, z: Any, truth: np.ndarray, info: seqgp.Info, log_score: float) -> Summary:
    """The numbers of a posterior from its draws."""
    f, z = np.asarray(f), np.asarray(z)
    low, high = np.quantile(f, [0.025, 0.975], axis=0)
    return Summary(
        mean=f.mean(axis=0),
        sd=f.std(axis=0, ddof=1),
        coverage=float(np.mean((low <= truth) & (truth <= high))),
        z_mean=z.mean(axis=0),
        z_sd=z.std(axis=0, ddof=1),
        log_score=log_score,
        seconds=info.seconds,
        ess=info.ess if isinstance(info, seqgp.OnlineInfo) else info.ess["latent"],
        rhat=float("nan") if isinstance(info, seqgp.OnlineInfo) else info.max_rhat,
    )


def exact_posterior(
    data: DataSet, t: int, key: Any, draws: int = 1000, warmup: int = 400, thin: int = 2, window: int | None = None
) -> Summary:
    """The exact posterior at the ``t``-th time (counted from 1), given all data up to it, or the last ``window``.

    The collapsed sampler where data are Gaussian, else the full one, which does not score the next snapshot.
    """
    seen = data.snapshots[t - window if window else 0 : t]
    if not isinstance(data.model.likelihood, seqgp.likelihoods.Gaussian):
        full = seqgp.FullSampler(data.model, draws=draws, warmup=warmup, thin=thin, updates="informed")
        state, info = full.sample(key, seen)
        return summarise(state.latent[-1], state.z, data.f[t - 1], info, float("nan"))
    sampler = CollapsedSampler(data.model, draws=draws, warmup=warmup, thin=thin)
    state, info = sampler.sample(key, seen)
    chosen = np.linspace(0, draws - 1, min(draws, 200)).astype(int)
    score = predictive_log_score(data.model, seen, data.snapshots[t], jnp.asarray(state.z)[chosen])
    return summarise(state.latent[-1], state.z, data.f[t - 1], info, score)


def sequential_posteriors(data: DataSet, times: Iterable[int], key: Any, sampler: seqgp.Sampler) -> dict[int, Summary]:
    """The posterior of a sampler at the given times, from one run; ``seconds`` are those of the step alone."""
    found, wanted = {}, set(times)
    key_run, key_predict = jax.random.split(key)
    steps = seqgp.steps(key_run, sampler, data.snapshots[: max(wanted)], progress=False)
    for t, (state, info) in enumerate(steps, start=1):
        if t in wanted:
            following = data.snapshots[t]
            prediction = seqgp.predict(
                jax.random.fold_in(key_predict, t), data.model, state, following.x, t=following.t
            )
            score = float(np.asarray(prediction.log_score(following.y)))
            found[t] = summarise(state.latent, state.z, data.f[t - 1], info, score)
    return found


def compare(data: DataSet, t: int, exact: Summary, found: Summary) -> dict[str, float]:
    """How far a posterior at the ``t``-th time is from the exact one."""
    truth = data.f[t - 1]
    bias = (found.mean - exact.mean) / exact.sd
    row = {
        "R": float(np.mean(found.sd**2 / exact.sd**2)),
        "bias": float(np.sqrt(np.mean(bias**2))),
        "rmse ratio": _rms(found.mean - truth) / _rms(exact.mean - truth),
        "coverage": found.coverage,
        "exact coverage": exact.coverage,
        "log score": found.log_score,
        "exact log score": exact.log_score,
        "seconds": found.seconds,
        "exact seconds": exact.seconds,
        "rhat": found.rhat,
        "exact rhat": exact.rhat,
    }
    for i, name in enumerate(data.model.names):
        row[f"bias {name}"] = float((found.z_mean[i] - exact.z_mean[i]) / exact.z_sd[i])
        row[f"sd {name}"] = float(found.z_sd[i] / exact.z_sd[i])
    return row


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def gather(rows: Sequence[dict[str, Any]], column: str, **where: Any) -> np.ndarray:
    """A column of the rows that match."""
    return np.array([row[column] for row in rows if all(row[name] == value for name, value in where.items())])


def mean_and_error(values: np.ndarray, digits: int = 2) -> str:
    """``mean ± standard error``, or the value where there is one."""
    if len(values) == 0:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / len(values) ** 0.5:.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
