"""What the jitter of covariance matrices does to the posterior of Gaussian data: bounded, and told where it matters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.remarks import Remark
from seqgp.kernels.base import Parameters
from seqgp.mcmc.problem import Problem
from seqgp.model import Model

NEGLIGIBLE = 0.1  # of a log evidence, which moves by less from seed to seed
MOST = 2000  # data of which covariances are compared


def jitter_remarks(model: Model, problem: Problem, z: Float[np.ndarray, " d"]) -> tuple[dict[str, float], list[str]]:
    """By how much the jitter is expected to move the log evidence at ``z``, with a warning where it matters."""
    effect = jitter_effect(model, problem, z)
    if effect < NEGLIGIBLE:
        return {}, []
    text = (
        f"Model(jitter={model.jitter[0]:g}) counts as noise of the latent function, and moves the log evidence of a "
        f"step by about {effect:.1g}: give a smaller one, or take OnlineSampler, which adds none"
    )
    return {"jitter_effect": effect}, [str(Remark("jitter", (), text))]


def jitter_effect(model: Model, problem: Problem, z: Float[np.ndarray, " d"]) -> float:
    """``½ tr (C_j − C) C_j⁻¹`` for the covariances of Gaussian data with and without jitter: of their log evidence.

    Zero where a bound says that it is negligible: ``C_j`` is at least the variance of the noise, and the jitter adds
    about itself to each variance, once for each factor of the covariance.
    """
    if not model.likelihood.conjugate or any(one.sums is not None for one in problem.observed):
        return 0.0
    parameters = model.parameters(jnp.asarray(z))
    seen = ~np.concatenate([np.asarray(one.missing) for one in problem.observed])
    each = [(model.likelihood.noise(one.context, parameters), np.shape(one.missing)) for one in problem.observed]
    noise = np.concatenate([np.broadcast_to(sd, shape) for sd, shape in each])[seen]
    factors = 1 + problem.x.shape[-1]
    added = model.jitter[0] * float(model.kernel.variance(parameters)) * factors
    if not len(noise) or len(noise) > MOST or added * np.sum(noise**-2.0) / 2 < NEGLIGIBLE:
        return 0.0
    once, doubled = (_covariance(model, problem, parameters, times)[np.ix_(seen, seen)] for times in (1, 2))
    return float(np.trace(np.linalg.solve(once + np.diag(noise**2), doubled - once)) / 2)


def _covariance(model: Model, problem: Problem, parameters: Parameters, times: int) -> Float[np.ndarray, "n n"]:
    """Of ``f`` at the data of the step given its window, with so many times the jitter."""
    ladder = tuple(times * jitter for jitter in model.jitter)
    geometry = problem.representation.geometry(
        model.kernel, problem.times, problem.x, problem.mask, len(problem.observed)
    )
    root = problem.representation.conditional(model.kernel, geometry, parameters, ladder).root
    return np.asarray(_seen(problem, root.apply(jnp.eye(problem.present))))


def _seen(problem: Problem, columns: Float[Array, "n k"]) -> Float[Array, "N N"]:
    blocks = columns.reshape(len(problem.observed), problem.sites, -1)
    rows = [jax.vmap(one.observe, in_axes=1, out_axes=1)(block) for one, block in zip(problem.observed, blocks)]
    half = jnp.concatenate(rows)
    return half @ half.T
