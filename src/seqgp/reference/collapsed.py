"""The collapsed sampler: Gaussian data, the latent integrated out; exact, and the oracle of the rest.

``z`` moves by elliptical slices under the log marginal likelihood, on ellipses with heavy tails around the moments of
the warm-up draws (corrected for, and frozen); the latent is drawn exactly for every draw that is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from seqgp.base.errors import SamplerError
from seqgp.base.info import ChainInfo
from seqgp.base.snapshot import Snapshot
from seqgp.fields.operators import Events
from seqgp.kernels.delayed import refuse_moving
from seqgp.mcmc.chains import CANDIDATES, Draws
from seqgp.mcmc.elliptical import Evaluation, SliceInfo, elliptical_slice, random_numbers
from seqgp.mcmc.gaussian import log_normal_density
from seqgp.mcmc.plan import Plan, budget_of, divisor_near
from seqgp.mcmc.sample import Sampled, info_of, merge
from seqgp.mcmc.student import Student
from seqgp.model import Model
from seqgp.reference.marginal import (
    Stack,
    draw_latent,
    log_marginal,
    observed_distances,
    require_gaussian,
    stack,
)
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.progress import Progress
from seqgp.samplers.full.stacked import FullState, check_snapshots, means_at
from seqgp.samplers.validation import model_digest

COVARIANCE_INFLATION = 1.5  # of the covariance of the warm-up draws, so that the ellipse covers the posterior's tails
WARMUP_STAGES = (0.2, 0.3, 0.5)  # of the warm-up: the first on ellipses from the prior, the others on informed ones
NUM_CALLS = 10


class CollapsedDraw(NamedTuple):
    """The draws of one chain."""

    z: Float[Array, "n d"]
    f: Float[Array, "n N"]
    log_marginal: Float[Array, " n"]


def _density(model: Model, data: Stack):
    """``log p(y | z)``, as a function of ``z``."""
    between = observed_distances(model, data)
    return lambda z: log_marginal(model, data, between, model.parameters(z))


def _start(model: Model, data: Stack, prior: Student, key: Key[Array, ""]) -> Float[Array, " d"]:
    """The best of a few draws from the prior."""
    density = _density(model, data)
    drawn = jax.random.normal(key, (CANDIDATES, len(prior.mean)))
    candidates = prior.mean[None] + drawn @ prior.root.T
    found = jax.lax.map(density, candidates)
    return candidates[jnp.argmax(jnp.where(jnp.isnan(found), -jnp.inf, found))]


def _advance(model: Model, data: Stack, prior: Student, ellipse: Student, sizes: tuple[int, int, bool], key, z):
    """``count`` draws of ``z``, each after ``thin`` slices; with the latent, if it is wanted."""
    count, thin, latent = sizes
    density = _density(model, data)
    between = model.kernel.prepare(data.t, data.x) if latent else None

    def weigh(z, found):
        return found + log_normal_density(z, prior.mean, prior.root) - ellipse.log_density(z)

    def slice_(carry, key):
        z, found = carry
        key_width, key_slice = jax.random.split(key)

        def evaluate(centred) -> Evaluation:
            found = density(ellipse.mean + centred)
            return Evaluation(weigh(ellipse.mean + centred, found), found, Events.none())

        white, uniform = random_numbers(key_slice, z.shape[0])
        drawn = ellipse.width(key_width, z) * (ellipse.root @ white)
        start = Evaluation(weigh(z, found), found, Events.none())
        centred, at, info = elliptical_slice(uniform[0], z - ellipse.mean, drawn, start, evaluate)
        return (ellipse.mean + centred, at.kept), info

    def draw(carry, key):
        key_slices, key_latent = jax.random.split(key)
        (z, found), infos = jax.lax.scan(slice_, carry, jax.random.split(key_slices, thin))
        f = jnp.zeros(0) if between is None else draw_latent(key_latent, model, data, between, model.parameters(z))
        return (z, found), (CollapsedDraw(jnp.asarray(z), f, found), jax.tree.map(jnp.sum, infos))

    (z, _), (kept, infos) = jax.lax.scan(draw, (z, density(z)), jax.random.split(key, count))
    return z, kept, jax.tree.map(jnp.sum, infos)


class CollapsedSampler:
    """Draws of the latents at all times and of all parameters given all the data, for a Gaussian likelihood.

    Args:
        model: the model; its likelihood must be :class:`seqgp.likelihoods.Gaussian`.
        draws: how many draws to keep.
        chains: over how many chains the draws are spread; a divisor of ``draws``.
        warmup: slices per chain that are dropped; ellipses are found anew after each of three stages.
        thin: slices per draw.
    """

    def __init__(
        self,
        model: Model,
        draws: int = 1000,
        chains: int | None = None,
        warmup: int | None = None,
        thin: int | None = None,
    ):
        budget = budget_of("CollapsedSampler", model, draws, chains, warmup, thin)
        refuse_moving(model.kernel, "CollapsedSampler")
        require_gaussian(model, "CollapsedSampler")
        self.model = model
        self.draws = budget.draws
        self.chains = budget.chains or divisor_near(budget.draws, 4)
        self.warmup = 400 if budget.warmup is None else budget.warmup
        self.thin = 2 if budget.thin is None else budget.thin
        self.fingerprint = model_digest(model)

    def sample(
        self, key: Key[Array, ""], snapshots: Sequence[Snapshot] | Snapshot, progress: Progress | None = None
    ) -> tuple[FullState, ChainInfo]:
        """Draws given all snapshots, which must be in the order of time."""
        start = time.perf_counter()
        snapshots = check_snapshots(self.model, snapshots)
        data = stack(self.model, snapshots)
        sampled = self._chains(key, data, progress)
        z, f0 = merge(np.asarray(sampled.draws.z)), merge(np.asarray(sampled.draws.sites))
        f = f0 + np.concatenate([means_at(self.model, snapshot, z) for snapshot in snapshots], axis=1)
        ends = np.cumsum([len(snapshot.x) for snapshot in snapshots])[:-1]
        state = FullState(
            times=tuple(snapshot.t for snapshot in snapshots),
            latent=tuple(jnp.asarray(block) for block in np.split(f, ends, axis=1)),
            parameters=self.model.natural(jnp.asarray(z)),
            z=jnp.asarray(z),
            fingerprint=self.fingerprint,
        )
        settings = {"latent": "integrated out", "updates": "collapsed"}
        return state, info_of(self.model, sampled, f, snapshots, len(snapshots), start, settings)

    def _chains(self, key: Key[Array, ""], data: Stack, progress: Progress | None) -> Sampled:
        """Start, warm up in stages, and draw: every chain in a thread of its own."""
        keys = jax.random.split(key, (2 + len(WARMUP_STAGES), self.chains))
        mean, covariance = self.model.prior_of_z()
        prior = ellipse = Student(jnp.asarray(mean), jnp.asarray(np.linalg.cholesky(covariance)))
        starts = [compiled(_start, self.model, data, prior, k) for k in keys[0]]
        z = in_threads([run for run, _ in starts])
        seconds = sum(spent for _, spent in starts)
        for stage, share in enumerate(WARMUP_STAGES, start=1):
            if self.warmup >= 20 and len(mean):
                size = (int(share * self.warmup), 1, False)
                z, kept, _, spent = self._advance(data, prior, ellipse, size, keys[stage], z)
                seconds += spent
                ellipse = _informed(np.stack([np.asarray(k.z)[len(k.z) // 2 :] for k in kept]), covariance)
        start = time.perf_counter()
        draws, counts, spent = self._draw(data, prior, ellipse, keys[-1], z, progress)
        drawing = time.perf_counter() - start - spent
        plan = Plan(self.chains, self.warmup, self.draws // self.chains, self.thin, 1, True)
        return Sampled(
            draws, {"parameters": counts}, plan, seconds + spent, drawing, "collapsed", (), "thin, warmup or draws"
        )

    def _draw(self, data, prior, ellipse, keys, z, progress) -> tuple[Draws, SliceInfo, float]:
        per_chain = self.draws // self.chains
        piece = divisor_near(per_chain, max(1, per_chain // NUM_CALLS))
        parts, infos, seconds = [], [], 0.0
        for i in range(per_chain // piece):
            inner = jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(keys)
            z, kept, counts, spent = self._advance(data, prior, ellipse, (piece, self.thin, True), inner, z)
            seconds += spent
            parts.append(jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *kept))
            infos += counts
            if progress is not None:
                progress((i + 1) * piece / per_chain)
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
        if not np.isfinite(joined.log_marginal).all():
            raise SamplerError(
                "CollapsedSampler: the marginal likelihood is not finite at the start of a chain: the covariance of "
                "the data is not positive definite for any draw of the prior; raise Model(jitter=…) or bound the noise"
            )
        counts = jax.tree.map(lambda *leaves: sum(leaf.item() for leaf in leaves), *infos)
        return Draws(joined.z, joined.f, joined.log_marginal), counts, seconds

    def _advance(self, data, prior, ellipse, size, keys, z):
        tasks = [compiled(_advance, self.model, data, prior, ellipse, size, k, at) for k, at in zip(keys, z)]
        results = in_threads([run for run, _ in tasks])
        z, kept, counts = (list(part) for part in zip(*results))
        return z, kept, counts, sum(spent for _, spent in tasks)


def _informed(z: np.ndarray, prior: np.ndarray) -> Student:
    """The moments of draws, inflated; a trace of the prior keeps them regular."""
    flat = z.reshape(-1, z.shape[-1])
    covariance = COVARIANCE_INFLATION * np.atleast_2d(np.cov(flat, rowvar=False)) + 1e-6 * prior
    return Student(jnp.asarray(flat.mean(axis=0)), jnp.asarray(np.linalg.cholesky(covariance)))
