"""The target of a step before its chains start: what updates may ask about it, answered by compiled functions.

The mode of the latent at fixed parameters is found by damped Fisher scoring, the curvature there by automatic
differentiation.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from seqgp.linalg.types import Array
from seqgp.mcmc.charts import tilt
from seqgp.mcmc.fisher import log_precision, quadratic_of
from seqgp.mcmc.informed import quadratic_at
from seqgp.mcmc.problem import Problem, StepTarget, target_of
from seqgp.mcmc.target import place_at
from seqgp.mcmc.updates import QuadraticApproximation, SearchResult
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape, compiled

# How JAX says that something has no derivative: no rule, a callback, a loop that reverse mode cannot go back through, a
# value that must be concrete.
_NOT_DIFFERENTIABLE = (NotImplementedError, TypeError, ValueError, AssertionError)


def differentiable(function: Callable[[Array], Array], at: jax.ShapeDtypeStruct) -> bool:
    """Whether JAX can differentiate a scalar function twice, forward over reverse (only traced, not run)."""
    try:
        jax.eval_shape(lambda v: jax.jvp(jax.grad(function), (v,), (v,)), at)
    except _NOT_DIFFERENTIABLE:
        return False
    return True


def diagonal_curvature(
    log_density: Callable[[Float[Array, " n"]], Float[Array, ""]], at: Float[Array, " n"], diagonal: bool
) -> Float[Array, " n"]:
    """The diagonal of the negative Hessian, its negative entries clipped at zero.

    Where the Hessian is known to be diagonal, one product with a vector of ones gives it.
    """

    def product(v):
        return jax.jvp(jax.grad(log_density), (at,), (v,))[1]

    if diagonal:
        hessian = product(jnp.ones_like(at))
    else:
        basis = jnp.eye(at.shape[0], dtype=at.dtype)
        hessian = jax.lax.map(lambda e: jnp.dot(e, product(e)), basis, batch_size=min(at.shape[0], 32))
    return jnp.nan_to_num(jnp.maximum(-hessian, 0.0), posinf=0.0)


MAX_ITERATIONS = 40
MAX_HALVINGS = 12
MIN_GAIN = 1e-3  # gain in log density below which the search ends: the approximation need not be sharper


def approximation_at(target: StepTarget, sites: Float[Array, " n"], z: Float[Array, " d"]) -> QuadraticApproximation:
    """The approximation at a point, with how it follows the likelihood's parameters."""
    model, problem = target.model, target.problem
    blocks = target.present_blocks(sites)
    factor, slope = quadratic_of(model.likelihood, problem.observed, blocks, model.parameters(z))
    growth = jnp.zeros_like(z)
    index = model.layout().likelihood
    if len(index) and not model.likelihood.quadratic:  # which the target follows by itself
        try:
            growth = jax.grad(lambda z: log_precision(model.likelihood, problem.observed, blocks, model.parameters(z)))(
                z
            )
        except NotImplementedError:
            growth = jnp.zeros_like(z)
        keep = jnp.zeros_like(z).at[index].set(1.0)
        growth = jnp.where(jnp.isfinite(growth), growth * keep, 0.0)
    return QuadraticApproximation(factor, slope, z, growth)


def search(target: StepTarget, z: Float[Array, " d"], nu: Float[Array, " n"]) -> SearchResult:
    """Maximise ``log_likelihood + log N(nu)`` from ``nu`` at fixed ``z``: damped Newton steps of the approximation."""
    place = place_at(target, z)
    root = target.root(place.conditional)

    def density(nu):
        value = target.log_likelihood(place.offset + root.apply(nu), z) - 0.5 * jnp.dot(nu, nu)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def damped_newton(state):
        nu, value, iteration, _ = state
        approximation = approximation_at(target, place.offset + root.apply(nu), z)
        aim = tilt(place, root, quadratic_at(target, z, approximation)).centre()

        def halve(inner):
            step, _, count = inner
            return 0.5 * step, density(nu + 0.5 * step * (aim - nu)), count + 1

        def worse(inner):
            return ~(inner[1] > value) & (inner[2] < MAX_HALVINGS)

        step, reached, _ = jax.lax.while_loop(worse, halve, (jnp.ones(()), density(aim), jnp.zeros((), int)))
        better = reached > value
        gain = jnp.where(better, reached - value, 0.0)
        return jnp.where(better, nu + step * (aim - nu), nu), jnp.maximum(reached, value), iteration + 1, gain

    def unfinished(state):
        _, _, iteration, gain = state
        return (gain > MIN_GAIN) & (iteration < MAX_ITERATIONS)

    first = (nu, density(nu), jnp.zeros((), int), jnp.asarray(jnp.inf))
    nu, value, iterations, gain = jax.lax.while_loop(unfinished, damped_newton, first)
    sites = place.offset + root.apply(nu)
    return SearchResult(
        nu=nu,
        sites=sites,
        approximation=approximation_at(target, sites, z),
        log_density=value,
        iterations=iterations,
        converged=jnp.isfinite(value) & (gain <= 1.0) & jnp.isfinite(sites).all(),
    )


class StepExploration:
    """A :class:`seqgp.mcmc.updates.Exploration` of a step.

    Args:
        model: the model.
        problem: the step.
        window: the mean over the draws of the window.

    Attributes:
        compile_seconds: how long the compilation of all answers took so far.
    """

    def __init__(self, model: Model, problem: Problem, window: Float[np.ndarray, "tau S"]):
        self._parts = model, problem
        self._model, self._problem, self._window = model, problem, window
        self.mean, self.covariance = np.asarray(problem.mean), np.asarray(problem.covariance)
        self.present = problem.present
        self.compile_seconds = 0.0

    @property
    def uninformed(self) -> np.ndarray:
        """One time says nothing about the time kernel."""
        time = self._model.layout().time
        return time if len(self._problem.times) == 1 else time[:0]

    @property
    def quadratic(self) -> bool:
        """Whether the log likelihood is quadratic in the latent."""
        return self._model.likelihood.quadratic

    def differentiable(self) -> bool:
        """Whether JAX can differentiate the log likelihood in the latent."""
        return is_differentiable(*self._parts)

    def prior_variance(self, z: Float[np.ndarray, " d"]) -> float:
        """The prior variance of the latent."""
        return float(self._model.kernel.variance(self._model.parameters(jnp.asarray(z))))

    def curvature(self, sites: Float[np.ndarray, " S"], z: Float[np.ndarray, " d"]) -> Float[np.ndarray, " S"]:
        """The curvature of the log likelihood in each site of the present."""
        return np.asarray(self._answer(_curvature, sites, z))

    def search(self, z: Float[np.ndarray, " d"]) -> SearchResult:
        """The most probable latent at fixed ``z``, given the mean window."""
        return jax.tree.map(np.asarray, self._answer(_search, z, self._window))

    def approximation(self, sites: Float[np.ndarray, " n"], z: Float[np.ndarray, " d"]) -> QuadraticApproximation:
        """The approximation at a point."""
        return jax.tree.map(np.asarray, self._answer(_approximation, z, sites))

    def _answer(self, function: Callable[..., PyTree], *args: np.ndarray) -> PyTree:
        run, seconds = compiled(function, *self._parts, *args)
        self.compile_seconds += seconds
        return run()


def _search(model: Model, problem: Problem, z, window) -> SearchResult:
    target = target_of(model, problem).given_window(window)
    return search(target, z, jnp.zeros(target.size))


def _approximation(model: Model, problem: Problem, z, sites) -> QuadraticApproximation:
    return approximation_at(target_of(model, problem), sites, z)


def _curvature(model: Model, problem: Problem, sites: Array, z: Array) -> Array:
    target = target_of(model, problem)
    pointwise = model.likelihood.pointwise and all(
        observed.sums is None and observed.observe.weights is None for observed in problem.observed
    )
    return diagonal_curvature(lambda s: target.log_likelihood(s, z), sites, pointwise)


def is_differentiable(model: Model, problem: Problem) -> bool:
    """Whether JAX can differentiate the likelihood of this snapshot in the latent."""
    return cached_by_shape(_is_differentiable, model, problem)


def _is_differentiable(model: Model, problem: Problem) -> bool:
    def log_likelihood(sites):  # all of it traced: nothing is computed, nor compiled
        target = target_of(model, problem)
        return target.log_likelihood(sites, jnp.zeros(target.mean.shape))

    return differentiable(log_likelihood, jax.ShapeDtypeStruct((problem.present,), float))
