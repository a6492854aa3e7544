"""What others offer for the same posterior: NumPyro's NUTS and BlackJAX's elliptical slice sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS

import seqgp
from benchmarks.lines import seconds_of, smallest_ess, timed


class Sampled(NamedTuple):
    """Draws of a peer, and what they cost: ``seconds`` are those of the draws kept, without warm-up or compilation."""

    z: np.ndarray  # (draws, d)
    f: np.ndarray  # (draws, N), of the last snapshot
    seconds: float
    warmup_seconds: float
    leapfrogs: float  # per draw

    @property
    def ess(self) -> float:
        """The smallest effective sample size over all parameters and latent values."""
        return smallest_ess(1, self.z, self.f)


def covariance_of(model: seqgp.Model, snapshots: Sequence[seqgp.Snapshot]) -> Callable[[dict[str, Any]], jax.Array]:
    """The covariance of the latent at all snapshots, as a function of the parameters."""
    ((_, kernel),) = model.kernel.terms()
    t = jnp.asarray(np.repeat([s.t for s in snapshots], [len(s.x) for s in snapshots]))[:, None]
    x = jnp.asarray(np.concatenate([s.x for s in snapshots]))
    time, space = kernel.time.prepare(t, t), kernel.space.prepare(x, x)

    def covariance(parameters: dict[str, Any]) -> jax.Array:
        matrix = kernel.space.covariance(space, _below(parameters, "space."))
        if len(snapshots) > 1:
            matrix = matrix * kernel.time.covariance(time, _below(parameters, "time."))
        return parameters["scale"] ** 2 * (matrix + model.jitter[0] * jnp.eye(len(x)))

    return covariance


def _below(parameters: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in parameters.items() if name.startswith(prefix)}


def nuts(model: seqgp.Model, snapshots: Sequence[seqgp.Snapshot], draws: int, seed: int = 0) -> Sampled:
    """NUTS on the posterior given all snapshots, latent whitened, with as many warm-up iterations as draws."""
    covariance = covariance_of(model, snapshots)
    mean, spread = model.prior_of_z()
    ends = np.cumsum([len(s.x) for s in snapshots])

    def f_by_time(z, nu):
        parameters = model.parameters(z)
        f = jnp.linalg.cholesky(covariance(parameters)) @ nu + parameters["mean"]
        return parameters, jnp.split(f, ends[:-1])

    def joint():
        z = numpyro.sample("z", dist.Normal(mean, np.sqrt(np.diag(spread))).to_event(1))
        nu = numpyro.sample("nu", dist.Normal().expand([int(ends[-1])]).to_event(1))
        parameters, blocks = f_by_time(z, nu)
        for i, (f, snapshot) in enumerate(zip(blocks, snapshots)):
            missing = np.isnan(snapshot.y)
            log_prob = model.likelihood.log_prob(
                f, jnp.asarray(snapshot.y), jnp.asarray(missing), snapshot.context, parameters
            )
            numpyro.factor(f"y_{i}", log_prob)

    kernel = NUTS(joint)
    start = kernel.init(jax.random.key(seed), draws, None, (), {})

    def advance(state):
        def one(state, _):
            state = kernel.sample(state, (), {})
            return state, (state.z, state.num_steps)

        return jax.lax.scan(one, state, None, draws)

    run = jax.jit(advance).lower(start).compile()
    (warm, _), warmup_seconds = timed(lambda: run(start))
    (_, (kept, leapfrogs)), seconds = timed(lambda: run(warm))
    last = jax.jit(jax.vmap(lambda z, nu: f_by_time(z, nu)[1][-1]))(kept["z"], kept["nu"])
    return Sampled(np.asarray(kept["z"]), np.asarray(last), seconds, warmup_seconds, float(np.mean(leapfrogs)))


def elliptical(
    model: seqgp.Model, snapshot: seqgp.Snapshot, draws: int, thin: int, turns: int, seed: int = 0
) -> tuple[np.ndarray, float]:
    """BlackJAX's elliptical slices of the latent: ``f (draws, N)`` after a tenth of warm-up, and their seconds.

    The covariance is rebuilt in every iteration, as it must be in a sampler whose parameters move as well.
    """
    covariance = covariance_of(model, [snapshot])
    y, missing = jnp.asarray(snapshot.y), jnp.asarray(np.isnan(snapshot.y))
    warmup = draws // 10
    known = model.parameters(jnp.zeros(0))
    iterations = (warmup + draws) * thin

    def log_likelihood(f, parameters):
        return model.likelihood.log_prob(f + parameters["mean"], y, missing, snapshot.context, parameters)

    @jax.jit
    def chain(key, everywhere):
        def one(state: Any, inputs):
            key, parameters = inputs
            sampler = blackjax.elliptical_slice(
                lambda f: log_likelihood(f, parameters), mean=jnp.zeros(len(y)), cov=covariance(parameters)
            )
            after: Any = sampler.step(key, state)[0]
            return after, after.position

        first = jax.tree.map(lambda leaf: leaf[0], everywhere)
        start = blackjax.elliptical_slice.init(jnp.zeros(len(y)), lambda f: log_likelihood(f, first))
        _, f = jax.lax.scan(one, start, (jax.random.split(key, iterations), everywhere))
        return f[warmup * thin :: thin] + known["mean"]

    everywhere = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], iterations, axis=0), known)
    key = jax.random.key(seed)
    seconds = seconds_of(lambda: chain(key, everywhere), turns) * draws / (warmup + draws)
    return np.asarray(chain(key, everywhere)), seconds
