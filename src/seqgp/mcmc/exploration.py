"""What updates may ask about the target of a step before its chains start, answered by compiled functions."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from seqgp.linalg.types import Array
from seqgp.mcmc.curvature import diagonal_curvature, differentiable
from seqgp.mcmc.problem import Problem, target_of
from seqgp.mcmc.search import approximation_at, search
from seqgp.mcmc.updates import QuadraticApproximation, SearchResult
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape, compiled


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
