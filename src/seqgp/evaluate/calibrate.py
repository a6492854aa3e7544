"""Simulation-based calibration (Talts et al. 2018; Modrák et al. 2022): does the sampler sample the posterior?

Parameters, latent and data are drawn from the model; the sampler is run on the data; the rank of each true quantity
among its draws is uniform if the draws are from the posterior. The log likelihood is among the quantities, because
without it a posterior that ignores the data goes unnoticed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from seqgp.base.errors import ModelError, SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import positive, require_x64
from seqgp.evaluate.simulate import Simulation, check_sampling, default_design, simulate
from seqgp.evaluate.uniformity import RANKS, chi_square, holm, plot_ranks
from seqgp.fields.operators import root_with_jitter
from seqgp.fields.sites import Observe
from seqgp.linalg.factor import solve_lower
from seqgp.mcmc.gaussian import log_normal_density
from seqgp.mcmc.observed import observed_from
from seqgp.means.base import covariate_effect
from seqgp.model import Model
from seqgp.runtime.engine import compiled, in_threads
from seqgp.samplers.base import BatchSampler, Sampler
from seqgp.samplers.full.stacked import check_snapshots

DRAWS = RANKS - 1
FEWEST = 20


class Failure(NamedTuple):
    """A simulation whose sampler raised."""

    simulation: int
    seed: int
    message: str


class Calibration(NamedTuple):
    """The ranks of all test quantities, and whether they are uniform.

    Attributes:
        ranks: ranks 0, …, 99 by quantity, of the simulations that did not fail.
        p_values: of a chi-square test, by quantity.
        corrected: the p-values corrected by Holm for the number of quantities.
        seeds: ``simulate(jax.random.key(seed), …)`` gives the data of a simulation again.
        failures: the simulations whose sampler raised an error.
        ess: the smallest effective sample size of each simulation.
    """

    ranks: dict[str, Int[np.ndarray, " simulations"]]
    p_values: dict[str, float]
    corrected: dict[str, float]
    seeds: Int[np.ndarray, " simulations"]
    failures: tuple[Failure, ...]
    ess: np.ndarray

    def calibrated(self, level: float = 1e-3) -> bool:
        """Whether no quantity has a corrected p-value below the level."""
        return min(self.corrected.values()) > level

    def plot(self, probability: float = 0.99) -> Any:
        """ECDF differences with simultaneous bands; an ArviZ ``PlotCollection`` (``.savefig(path)``)."""
        return plot_ranks(self.ranks, probability)

    def table(self) -> str:
        """The p-values as a Markdown table."""
        lines = ["| quantity | p | corrected |", "|---|---|---|"]
        lines += [f"| {name} | {p:.3g} | {self.corrected[name]:.3g} |" for name, p in self.p_values.items()]
        return "\n".join(lines)


def calibrate(
    key: Key[Array, ""],
    model: Model,
    sampler: Sampler | BatchSampler,
    simulations: int = 500,
    *,
    design: Snapshot | Sequence[Snapshot] | None = None,
    latents: int = 3,
    progress: Callable[[float], None] | None = None,
) -> Calibration:
    """Simulation-based calibration of a sampler.

    Each simulation keeps 99 of its draws. They should be close to independent, so choose a generous ``thin`` of the
    sampler. Simulations run in parallel: one chain each is best.

    Args:
        key: a random key.
        model: what to simulate from: the sampler's own model, or another one to test the test.
        sampler: ``seqgp.SequentialSampler``, ``seqgp.FullSampler`` or
            ``seqgp.reference.CollapsedSampler``, with 99 draws or more.
        simulations: the number of simulated data sets.
        design: snapshots whose ``t``, ``x``, ``context`` and missing values are used; with several, a sequential
            sampler makes a step for each, and is tested at the last. By default, ten inputs at one time.
        latents: the number of values of the latent function to test.
        progress: called with the completed share, from 0 to 1.
    """
    require_x64()
    if positive("simulations", simulations) < FEWEST:
        raise SamplerError(
            f"calibrate: simulations = {simulations}, but fewer than {FEWEST} say nothing; 100 or more do"
        )
    if sampler.draws < DRAWS:
        raise SamplerError(f"calibrate: the sampler has draws = {sampler.draws}, but {DRAWS} are needed for the ranks")
    snapshots = default_design(model) if design is None else design
    snapshots = check_snapshots(model, snapshots, design=True)
    check_sampling(model, snapshots)
    key_seeds, key_samplers = jax.random.split(key)
    seeds = np.asarray(jax.random.randint(key_seeds, (simulations,), 0, np.iinfo(np.int32).max))
    drawn = [simulate(jax.random.key(int(seed)), model, snapshots) for seed in seeds]
    _check_drawn(drawn)
    keys = jax.random.split(key_samplers, (simulations, len(snapshots)))
    return _collect(_in_parallel(model, sampler, drawn, seeds, keys, latents, progress), seeds)


def _check_drawn(drawn: Sequence[Simulation]) -> None:
    bad = sum(not simulation.finite() for simulation in drawn)
    if bad:
        raise ModelError(
            f"the prior cannot be simulated: the latent is not finite for {bad} of {len(drawn)} draws of the "
            "parameters (a covariance that is not positive definite, or a parameter that overflows); raise "
            "Model(jitter=…), or choose tighter priors"
        )


class _Result(NamedTuple):
    ranks: dict[str, int]
    ess: float


def _in_parallel(model, sampler, drawn, seeds, keys, latents, progress) -> list[_Result | Failure]:
    """Every simulation in its turn, on all cores; one that raises is reported."""
    done = 0

    def one(i: int) -> _Result | Failure:
        nonlocal done
        try:
            result = _simulation(model, sampler, drawn[i], int(seeds[i]), keys[i], latents)
        except Exception as error:
            result = Failure(i, int(seeds[i]), f"{type(error).__name__}: {error}")
        done += 1
        if progress is not None:
            progress(done / len(drawn))
        return result

    return in_threads([functools.partial(one, i) for i in range(len(drawn))])


def _simulation(
    model: Model, sampler: Sampler | BatchSampler, drawn: Simulation, seed: int, keys: Array, latents: int
) -> _Result:
    """The data are of the seed; the sampler has keys of its own, one a step, apart from the seed's."""
    if isinstance(sampler, BatchSampler):
        state, info = sampler.sample(keys[0], drawn.snapshots)
        sampled = state.latent
    else:
        state, info = sampler.init(keys[0], drawn.snapshots[0])
        for key, snapshot in zip(keys[1:], drawn.snapshots[1:]):
            state, info = sampler.step(key, state, snapshot)
        sampled = (state.latent,)
    chosen = np.linspace(0, state.draws - 1, DRAWS).round().astype(int)
    # The truth is the first row, the draws are the others.
    z = np.concatenate([drawn.z[None], np.asarray(state.z)[chosen]])
    truths = drawn.f[-len(sampled) :]
    rows = [np.concatenate([t[None], np.asarray(draws)[chosen]]) for t, draws in zip(truths, sampled)]
    values = _quantities(model, drawn.snapshots[-len(sampled) :], z, rows, latents)
    rng = np.random.default_rng(seed)
    return _Result({name: _rank(value, rng) for name, value in values.items()}, info.min_ess)


def _quantities(model: Model, snapshots, z: np.ndarray, f: list[np.ndarray], latents: int) -> dict[str, np.ndarray]:
    """What is ranked: parameters, some of the latent at the last time, log likelihood and log prior."""
    found = {name: z[:, i] for i, name in enumerate(model.names)}
    last = f[-1]
    for i in np.unique(np.linspace(0, last.shape[1] - 1, min(latents, last.shape[1])).astype(int)):
        found[f"latent[{i}]"] = last[:, i]
    if model.likelihood.by_station:  # the densities of the data need the noises too
        return found
    observed = tuple(observed_from(model, s, Observe(), len(s.x)) for s in snapshots)
    times = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x = np.concatenate([s.x for s in snapshots])
    run, _ = compiled(_log_densities, model, observed, times, x, z, tuple(f))
    log_likelihood, log_prior = run()
    return found | {"log likelihood": np.asarray(log_likelihood), "log prior": np.asarray(log_prior)}


def _log_densities(model: Model, observed, times, x, z, f):
    """``log p(y | f, z)`` and ``log p(f, z)`` for each row."""
    between = model.kernel.prepare(jnp.asarray(times), jnp.asarray(x))
    mean, cov = model.prior_of_z()
    root_z = np.linalg.cholesky(cov) if len(mean) else cov

    def one(inputs):
        z, f = inputs
        parameters = model.parameters(z)
        means = [parameters["mean"] + covariate_effect(one.columns, parameters) for one in observed]
        zero_mean = [values - mean for values, mean in zip(f, means)]
        terms = [o.log_likelihood(model.likelihood, f0, parameters) for o, f0 in zip(observed, zero_mean)]
        prior = model.kernel.covariance(between, parameters)
        root = root_with_jitter(prior, model.kernel.variance(parameters), model.jitter)[0].root
        white = solve_lower(root, jnp.concatenate(zero_mean))
        log_prior = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root)))
        if len(mean):
            log_prior = log_prior + log_normal_density(z, jnp.asarray(mean), jnp.asarray(root_z))
        return sum(terms[1:], terms[0]), log_prior

    return jax.lax.map(one, (z, f))


def _rank(values: np.ndarray, rng: np.random.Generator) -> int:
    """The rank of the first among the others, ties broken at random."""
    if not np.isfinite(values).all():
        raise SamplerError("a test quantity is not finite")
    below, equal = int(np.sum(values[1:] < values[0])), int(np.sum(values[1:] == values[0]))
    return below + int(rng.integers(equal + 1))


def _collect(results: list[_Result | Failure], seeds: np.ndarray) -> Calibration:
    failures = tuple(result for result in results if isinstance(result, Failure))
    good = [result for result in results if isinstance(result, _Result)]
    if len(good) < FEWEST:
        first = failures[0]
        raise SamplerError(
            f"calibrate: {len(failures)} of {len(results)} simulations failed, the first (number {first.simulation}, "
            f"seed {first.seed}) with {first.message}"
        )
    ranks = {name: np.array([result.ranks[name] for result in good]) for name in good[0].ranks}
    p_values = {name: chi_square(rank) for name, rank in ranks.items()}
    return Calibration(ranks, p_values, holm(p_values), seeds, failures, np.array([result.ess for result in good]))
