"""What the updates need to have found before they start, and then freeze: surrogates and ellipses."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.chains.chains import Draws, Setting
from seqgp.chains.search import Found, search, surrogate_at
from seqgp.mcmc.curvature import diagonal_curvature, differentiable
from seqgp.mcmc.informed import InformedTuning
from seqgp.mcmc.plain import Plain, PlainTuning
from seqgp.mcmc.student import Student
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.runtime.engine import compiled, remembered
from seqgp.target.problem import Problem, assemble, target_of


class Tuned(NamedTuple):
    """The updates to use (others, where theirs could not be prepared), what is frozen, and what is worth saying."""

    setting: Setting
    tuning: Any
    remarks: tuple[str, ...]
    compile_seconds: float


def tune(setting: Setting, problem: Problem, window: np.ndarray) -> Tuned:
    """Before the first sweep: at the mean of what was carried; ``window`` is the mean of the draws of the window."""
    z = np.asarray(problem.carried.mean)
    if isinstance(setting.updates, Plain):
        tuning, seconds = _plain(setting, problem, None, z)
        return Tuned(setting, tuning, (), seconds)
    run, seconds = compiled(_search, setting, problem, z, window)
    found: Found = run()
    if not bool(found.converged):
        plain = setting._replace(updates=Plain())
        tuning, spent = _plain(plain, problem, None, z)
        spent_on = f"{int(found.iterations)} iterations"
        remark = f"the point for informed updates was not found ({spent_on}): plain updates were used"
        return Tuned(plain, tuning, (remark,), seconds + spent)
    root = np.linalg.cholesky(np.asarray(problem.carried.covariance)) if len(z) else np.zeros((0, 0))
    surrogate = jax.tree.map(np.asarray, found.surrogate)
    return Tuned(setting, InformedTuning(surrogate, Student(z, root)), (), seconds)


def retune(tuned: Tuned, problem: Problem, warm: Draws, window: np.ndarray, settled: bool) -> Tuned:
    """After a stage of the warm-up: at the mean of its second half, with its moments.

    While chains have not met, the mean of their latents is no likely point, and a surrogate there would hold them where
    they are: the point is searched for anew, at the mean of their parameters. Once they are ``settled`` the mean of the
    latents is a better point than the mode.
    """
    setting = tuned.setting
    half = warm.z.shape[1] // 2
    z, sites = warm.z[:, half:].mean((0, 1)), warm.sites[:, half:].mean((0, 1))
    if isinstance(setting.updates, Plain):
        tuning, seconds = _plain(setting, problem, sites, z)
        return tuned._replace(tuning=tuning, compile_seconds=tuned.compile_seconds + seconds)
    if settled or setting.model.likelihood.quadratic:
        run, seconds = compiled(_surrogate, setting, problem, z, sites)
        surrogate = run()
    else:
        run, seconds = compiled(_search, setting, problem, z, window)
        found: Found = run()
        surrogate = found.surrogate if bool(found.converged) else tuned.tuning.surrogate
    ellipse = _ellipse(np.concatenate(warm.z[:, half:]), problem, setting)
    tuning = InformedTuning(jax.tree.map(np.asarray, surrogate), ellipse)
    return tuned._replace(tuning=tuning, compile_seconds=tuned.compile_seconds + seconds)


def _ellipse(z: np.ndarray, problem: Problem, setting: Setting) -> Student:
    """Moments of the warm-up, inflated; where they are too few, those of the prior."""
    prior_mean, prior = np.asarray(problem.carried.mean), np.asarray(problem.carried.covariance)
    if len(z) < 10 * max(z.shape[1], 1) or z.shape[1] == 0:
        return Student(prior_mean, np.linalg.cholesky(prior) if z.shape[1] else prior)
    mean = z.mean(axis=0)
    covariance = setting.updates.inflate * np.atleast_2d(np.cov(z, rowvar=False)) + 1e-6 * prior
    if len(problem.times) == 1:  # one time says nothing about the time kernel: its parameters keep their prior
        time = setting.model.layout().time
        mean[time], covariance[time], covariance[:, time] = prior_mean[time], prior[time], prior[:, time]
    return Student(mean, np.linalg.cholesky(covariance))


def _search(setting: Setting, problem: Problem, z, window) -> Found:
    assembly = assemble(setting.model, setting.carry, problem)
    target = target_of(assembly, window)
    return search(assembly, target, z, jnp.zeros(target.size))


def _surrogate(setting: Setting, problem: Problem, z, sites):
    assembly = assemble(setting.model, setting.carry, problem)
    return surrogate_at(assembly, target_of(assembly, _no_window(problem)), sites, z)


def is_differentiable(setting: Setting, problem: Problem) -> bool:
    """Whether JAX can differentiate the likelihood of this snapshot in the latent."""
    return remembered(_is_differentiable, setting, problem)


def _is_differentiable(setting: Setting, problem: Problem) -> bool:
    def log_likelihood(sites):  # all of it traced: nothing is computed, nor compiled
        target = target_of(assemble(setting.model, setting.carry, problem), _no_window(problem))
        return target.log_likelihood(sites, jnp.zeros(target.mean.shape))

    tau, sites = len(problem.times) - len(problem.observed), problem.x.shape[1]
    size = setting.carry.size(tau, sites) + (len(problem.observed) - 1) * sites
    return differentiable(log_likelihood, jax.ShapeDtypeStruct((size,), float))


def _plain(setting: Setting, problem: Problem, sites: np.ndarray | None, z: np.ndarray) -> tuple[PlainTuning, float]:
    """The precision ``1/S`` of surrogate data at each site of the present.

    From the curvature of the log likelihood at a point (``sites``, ``z``), where it can be differentiated; otherwise
    from half the prior's standard deviation. A user's own ``S`` takes precedence.
    """
    present = len(problem.observed) * problem.x.shape[1]
    updates: Plain = setting.updates
    if updates.surrogate is not None:
        return PlainTuning(np.full(present, updates.surrogate**-2.0)), 0.0
    if not is_differentiable(setting, problem):
        variance = float(setting.model.kernel.variance(setting.model.parameters(jnp.asarray(z))))
        return PlainTuning(np.full(present, 4.0 / variance)), 0.0
    at = np.zeros(present) if sites is None else np.asarray(sites)[-present:]
    run, seconds = compiled(_curvature, setting, problem, at, np.asarray(z))
    return PlainTuning(np.asarray(run())), seconds


def _curvature(setting: Setting, problem: Problem, sites: Float[Array, " n"], z: Float[Array, " d"]):
    model: Model = setting.model
    target = target_of(assemble(model, setting.carry, problem), _no_window(problem))
    pointwise = model.likelihood.pointwise and all(
        observed.sums is None and observed.observe.weights is None for observed in problem.observed
    )
    return diagonal_curvature(lambda s: target.log_likelihood(s, z), sites, pointwise)


def _no_window(problem: Problem) -> Array:
    tau = len(problem.times) - len(problem.observed)
    return jnp.zeros((tau, problem.x.shape[1]))
