"""The online sampler: exact in the limit of particles, for as long as the stream runs."""

from __future__ import annotations

import functools
import numbers
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.filtering.linearised import check_linearisable
from seqgp.filtering.system import System
from seqgp.linalg.types import Array
from seqgp.models.errors import DataError, ModelError, SamplerError
from seqgp.models.kernels import Parameters
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.models.states import ORDER
from seqgp.online.bank import Spent
from seqgp.online.cloud import Cloud, systematic
from seqgp.online.history import check_latent
from seqgp.online.points import log_normal, normal_points
from seqgp.online.predictive import draws_at_data
from seqgp.online.state import Live, OnlineState
from seqgp.online.told import online_info
from seqgp.online.underway import Past, Underway
from seqgp.runtime.engine import compiled
from seqgp.samplers.checks import check_snapshot, check_state, check_together, model_digest, positive, require_x64
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import Progress

FEWEST = 16  # particles
FEWEST_KEPT = 10  # snapshots of a bounded history
FINEST = 5e-7  # noise over the sd of the latent: of squares, which covariances hold, no digits are left soon below it


class OnlineSampler:
    """Draws from the posterior of latent and parameters after each snapshot, without any approximation that adds up.

    A cloud of values of the parameters, each with a weight and its own exact filter. Where too few weights count, new
    values are drawn from a distribution fitted to the cloud, and their filters run over the data so far.

    Args:
        model: the model; its time kernel must be a state (Matérn, squared exponential, rational quadratic with a known
            alpha, sums and products). A likelihood that is not pointwise (a solver) must have a mean that JAX can
            differentiate; it is taken through a surrogate at each snapshot.
        particles: how many values of the parameters; a power of two fills space best.
        draws: how many draws to give at each time.
        history: how many snapshots are kept, for streams without end (up to three times as many are in memory for a
            while); all by default. What was before them is remembered about the parameters as a quadratic.
        forget: by how much the evidence of the past about the *parameters* is discounted at each step: 1 for parameters
            that stay, 0.99 for ones that drift over about a hundred steps.
        latent: where the latent lives: ``"auto"`` (stations as they come, grids, knots for inputs that move), or
            ``Dense()`` (stations, never knots), ``Grid()``, ``Knots(…)``.
        order: of the state that approximates a smooth time kernel.
    """

    def __init__(
        self,
        model: Model,
        particles: int = 256,
        draws: int = 1000,
        history: int | None = None,
        forget: float = 1.0,
        latent: Any = "auto",
        order: int = ORDER,
    ):
        require_x64()
        if not isinstance(model, Model):
            raise SamplerError(f"OnlineSampler: expected a seqgp.Model, got {type(model).__name__}")
        self.model = model
        self.particles = positive("particles", particles, least=FEWEST)
        self.draws = positive("draws", draws)
        self.history = None if history is None else positive("history", history, least=FEWEST_KEPT)
        if not (isinstance(forget, numbers.Real) and 0 < forget <= 1):
            raise SamplerError(f"OnlineSampler: forget = {forget!r} is not a number above 0 and at most 1")
        self.forget = float(forget)
        check_latent(latent)
        self.latent = latent
        self.order = positive("order", order)
        self._system = System(model, self.order)
        self.fingerprint = model_digest(model)

    @property
    def system(self) -> System:
        """The model as a linear system in time."""
        return self._system

    def check_likelihood(self, snapshot: Snapshot | None) -> None:
        """Raise, naming what and the remedy, unless filters take the data of this likelihood; nothing is compiled."""
        likelihood = self.model.likelihood
        if likelihood.conjugate and snapshot is not None:
            self._check_noise(snapshot)
        if likelihood.pointwise:
            return
        if snapshot is None:
            raise ModelError("the likelihood sees all of the latent at once, and there is no snapshot to try it on")
        check_linearisable(self.model, snapshot)

    def _check_noise(self, snapshot: Snapshot) -> None:
        """Raise where data are so exact that the filters' covariances cannot hold what is left to know."""
        parameters, sd = self._centre
        likelihood = self.model.likelihood
        noise = float(np.min(likelihood.noise(likelihood.context_at(snapshot.t, snapshot.context), parameters)))
        if noise < FINEST * sd:
            raise ModelError(
                f"OnlineSampler: a noise of {noise:.2g} is lost in the rounding of the filters' covariances where the "
                f"latent has a standard deviation of {sd:.2g}; give one of at least {FINEST * sd:.1g}, or take "
                "SequentialSampler with latent=Dense()"
            )

    @functools.cached_property
    def _centre(self) -> tuple[Parameters, float]:
        """The parameters at the centre of their priors, and the sd of the latent there."""
        parameters = jax.tree.map(np.asarray, self.system.parameters(jnp.asarray(self.system.cloud_prior()[0])))
        return parameters, self.system.sd(parameters)

    def init(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, Info]:
        """The draws after the first snapshot."""
        start = time.perf_counter()
        check_snapshot(self.model, snapshot)
        self.check_likelihood(snapshot)
        check_together(key, snapshot, particles=self.particles)
        rng, key_draws = _generators(key)
        mean, sd = self.system.cloud_prior()
        z = normal_points(rng, mean, sd, self.particles) if len(mean) else np.zeros((self.particles, 0))
        prior, none = log_normal(z, mean, sd), np.zeros(self.particles)
        step = Underway(self.system, self.latent, self.forget, rng, Cloud(z, prior, none, none, prior, 0.0), progress)
        step.take_in(None, snapshot)
        if not self.model.likelihood.pointwise:
            step.recentre()
        return self._finished(key_draws, step, start, 0.0)

    def step(
        self, key: Key[Array, ""], state: OnlineState, snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, Info]:
        """The draws after a further snapshot."""
        start = time.perf_counter()
        check_snapshot(self.model, snapshot)
        self._check(state, snapshot)
        self.check_likelihood(snapshot)
        check_together(key, snapshot, state.cloud.z, particles=self.particles)
        rng, key_draws = _generators(key)
        before = state.cloud.absorbed(self.forget)
        step = Underway(self.system, self.latent, self.forget, rng, before, progress)
        step.past = Past(state.born, state.dropped, state.memory)
        step.take_in(state.revived(self.model), snapshot)
        return self._finished(key_draws, step, start, state.log_evidence)

    def _finished(self, key, step: Underway, start: float, before: float) -> tuple[OnlineState, Info]:
        """The cloud settled, draws for people, and what happened."""
        lost = int(np.isneginf(step.cloud.last).sum())
        ahead = step.cloud.log_total() - step.cloud.log_total(0.0)
        step.settle(forced=step.history.rebuilt)
        ratios = None if self.model.likelihood.pointwise else step.correct()
        if self.history is not None and len(step.history.snapshots) >= 3 * self.history:
            step.trim(self.history)
        cloud, history, snapshot = step.cloud, step.history, step.history.snapshots[-1]
        particle = systematic(step.rng, cloud.weights(), self.draws)
        step.rng.shuffle(particle)
        if ratios is None:
            drawn, seconds = draws_at_data(key, history, step.bank, particle)
            step.spend(Spent(0, seconds))
        else:
            drawn = ratios.draws(step.rng, particle)
        latent, parameters, z = self._named(cloud.z[particle], drawn, step)
        _check_finite(latent, snapshot.t)
        log_evidence = cloud.log_total() if self.forget == 1 else before + ahead
        state = OnlineState(
            snapshot.t, step.number, latent, parameters, z, particle, cloud, step.past.born, log_evidence,
            {"order": self.order, "latent": self.latent}, self.fingerprint, history.snapshots, step.past.dropped,
            step.past.memory, history.surrogates, Live(history, step.bank),
        )  # fmt: skip
        return state, online_info(state, step, lost, ratios, time.perf_counter() - start)

    def _named(self, z: np.ndarray, drawn: np.ndarray, step: Underway) -> tuple[np.ndarray, dict[str, Any], np.ndarray]:
        """The level at the data, all parameters by name, and all of ``z``."""
        q = len(self.system.in_state)
        run, seconds = compiled(_natural, self.system, z, drawn[:, :q] / self.system.coefficient_scales())
        step.spend(Spent(0, seconds))
        whole, natural = run()
        return drawn[:, q:], {name: natural[name] for name in self.model.inferred}, np.asarray(whole)

    def _check(self, state: OnlineState, snapshot: Snapshot) -> None:
        """Raise unless the state is one that this step can follow."""
        if not isinstance(state, OnlineState):
            raise SamplerError(f"step: expected the state of an OnlineSampler, got {type(state).__name__}")
        check_state(self.model, state, "step")
        if len(state.cloud.z) != self.particles:
            raise SamplerError(
                f"step: the state has {len(state.cloud.z)} particles, but the sampler particles = {self.particles}"
            )
        if not snapshot.t > state.t:
            raise DataError(f"t = {snapshot.t} is not after the last t = {state.t}")
        if snapshot.x.shape[1] != state.dimension:
            raise DataError(f"Snapshot: x has {snapshot.x.shape[1]} columns, but the last one had {state.dimension}")


def _check_finite(latent: Float[np.ndarray, "draws N"], t: float) -> None:
    lost = int((~np.isfinite(latent).all(axis=1)).sum())
    if lost:
        raise SamplerError(
            f"t = {t}: {lost} of {len(latent)} draws of the latent are not finite: the filters' covariances have no "
            "digits left, as with a noise far below the scale; give a larger noise, or take SequentialSampler"
        )


def _natural(system: System, z, coefficients):
    whole = jax.vmap(system.whole_z)(z, coefficients)
    return whole, system.model.natural(whole)


def _generators(key: Key[Array, ""]) -> tuple[np.random.Generator, Key[Array, ""]]:
    """Random numbers of the cloud, and the key of the draws."""
    key_cloud, key_draws = jax.random.split(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key_cloud))), key_draws
