"""The maximum a posteriori latent and parameters of one snapshot: the optimiser behind the informed updates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from seqgp.chains.chains import Setting
from seqgp.chains.search import search
from seqgp.linalg.factor import cholesky
from seqgp.mcmc.gaussian import log_normal_density
from seqgp.mcmc.informed import Informed, chart_of
from seqgp.mcmc.target import place_at
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.runtime.engine import compiled, in_threads
from seqgp.samplers.checks import check_snapshot, require_x64
from seqgp.sequential.carry import PaperCarry
from seqgp.sequential.settings import choose_updates, resolve_latent
from seqgp.target import prepare
from seqgp.target.problem import Problem, assemble, target_of

ROUNDS = 8  # of finding the surrogate anew at the parameters reached
SMALL = 1e-3  # gain of log density in a round below which the search is over


class MapEstimate(NamedTuple):
    """The most probable parameters with the most probable latent given them, and how the search for them went."""

    latent: Float[Array, " N"]  # the level at the data
    parameters: dict[str, Any]
    z: Float[Array, " d"]
    log_density: float
    converged: bool
    gradient: float  # the largest entry of the gradient at the end
    rounds: int
    message: str


def find_map(model: Model, snapshot: Snapshot, latent: Any = "auto") -> MapEstimate:
    """The maximum a posteriori latent and parameters given one snapshot.

    The parameters maximise their posterior in ``z``, the latent integrated out by Laplace's method (exactly, for
    Gaussian noise); the joint mode of latent and parameters would be of no use, for it explains the noise away. The
    latent is the most probable one given them. It is found by damped Fisher scoring at fixed parameters, then all
    together by L-BFGS in the coordinates that the surrogate tilts, until neither gains.

    Args:
        model: the model; its likelihood must be one that JAX can differentiate.
        snapshot: the data.
        latent: the representation, as for :class:`seqgp.SequentialSampler`.
    """
    require_x64()
    check_snapshot(model, snapshot)
    representation, _ = resolve_latent(latent, model, snapshot)
    problem, _ = prepare.initial_problem(model, representation, snapshot)
    setting = Setting(model, PaperCarry(), Informed())
    choose_updates(setting.updates, setting, problem)
    z, nu, best = np.asarray(problem.carried.mean), np.zeros(_size(problem)), -np.inf
    rounds, gain, result = 0, np.inf, None
    while gain > SMALL and rounds < ROUNDS:
        z, nu, result = _round(setting, problem, z, nu)
        gain, best, rounds = -result.fun - best, -result.fun, rounds + 1
    assert result is not None
    return MapEstimate(
        latent=_run(_level, setting, problem, z, nu)[: len(snapshot.x)],
        parameters=model.parameters(jnp.asarray(z)),
        z=jnp.asarray(z),
        log_density=float(best),
        converged=bool(np.isfinite(best)) and gain < SMALL,
        gradient=float(np.max(np.abs(result.jac))),
        rounds=rounds,
        message=str(result.message),
    )


def _round(setting: Setting, problem: Problem, z: np.ndarray, nu: np.ndarray):
    """A surrogate at the parameters reached, then all together in the coordinates that it tilts."""
    found = _run(_scored, setting, problem, z, nu)
    start = np.concatenate([z, np.asarray(_run(_coordinates, setting, problem, z, found.nu, found.surrogate))])

    def objective(vector):
        value, gradient = _run(_objective, setting, problem, found.surrogate, vector)
        return float(value), np.asarray(gradient, dtype=float)

    result = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return result.x[: len(z)], np.asarray(_run(_latent, setting, problem, found.surrogate, result.x)), result


def _run(function, *args):
    run, _ = compiled(function, *args)
    return in_threads([run])[0]


def _size(problem: Problem) -> int:
    return problem.x.shape[0] * problem.x.shape[1]


def _target(setting: Setting, problem: Problem):
    assembly = assemble(setting.model, setting.carry, problem)
    return assembly, target_of(assembly, jnp.zeros((0, problem.x.shape[1])))


def _scored(setting, problem, z, nu):
    return search(*_target(setting, problem), z, nu)


def _coordinates(setting, problem, z, nu, surrogate):
    _, target = _target(setting, problem)
    return chart_of(target, place_at(target, z), z, surrogate).coordinates(nu)


def _unpacked(setting, problem, surrogate, vector):
    _, target = _target(setting, problem)
    d = target.mean.shape[0]
    z = vector[:d]
    chart = chart_of(target, place_at(target, z), z, surrogate)
    return target, z, chart.centre() + chart.centred_nu(vector[d:]), chart


def _latent(setting, problem, surrogate, vector):
    return _unpacked(setting, problem, surrogate, vector)[2]


def _objective(setting, problem, surrogate, vector):
    """Minus the log density of ``z``, Laplace's way, and its gradient in ``z`` and the tilted coordinates."""

    def value(vector):
        target, z, nu, chart = _unpacked(setting, problem, surrogate, vector)
        sites = chart.place.offset + target.root(chart.place.conditional).apply(nu)
        volume = jnp.sum(jnp.log(jnp.diagonal(chart.chol)))
        density = target.log_likelihood(sites, z) - 0.5 * jnp.dot(nu, nu) - volume
        if z.shape[0]:
            density += log_normal_density(z, target.mean, cholesky(target.covariance))
        return jnp.where(jnp.isnan(density), jnp.inf, -density)

    result, gradient = jax.value_and_grad(value)(vector)
    return result, jnp.nan_to_num(gradient)


def _level(setting, problem, z, nu):
    _, target = _target(setting, problem)
    place = place_at(target, z)
    sites = place.offset + target.root(place.conditional).apply(nu)
    return problem.observed[0].observe(sites) + target.mean_level(z)
