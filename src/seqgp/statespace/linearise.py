"""Likelihoods that see all of the latent, a solver of a differential equation say, as Gaussian data of it.

Near the posterior the mean of the data is nearly linear in ``f`` ``u``: ``mean(u) ≈ A u + b``, up to a residual.
So the data are data of ``A u`` with their own variance and that of the residual, and a filter takes them as such
without calling the solver again. The slope is the mean of the Jacobian over the posterior, which for a Gaussian is the
regression of the data's mean on ``f`` (Stein's lemma); slope and posterior are found by turns (García-Fernández et
al. 2015). Where JAX cannot differentiate the mean, a black box, the slope is the regression on sigma points: the mean
of the data at points a few standard deviations along each direction of the latent, and no derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from seqgp.base.errors import ModelError
from seqgp.base.priors import Prior
from seqgp.base.snapshot import Context, Snapshot
from seqgp.kernels.base import Parameters
from seqgp.likelihoods.base import Likelihood
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape
from seqgp.statespace.newton import damped_newton

ROUNDS = 3  # of slope and posterior by turns
ROUNDING = 1e-10  # of the mean variance, on the diagonal of a covariance that is drawn from
GAIN = 1e-3  # in log density, below which the search for the mode ends
SIGMA, NEAR = 3**0.5, 0.05  # standard deviations from the centre to sigma points: in a posterior, and around a mode


class Linearisation(NamedTuple):
    """The mean of the data as ``A u + b``, found near one value of the parameters."""

    at: Float[Array, " N"]  # ``f`` at which variances are taken
    slope: Float[Array, "D N"]  # A
    intercept: Float[Array, " D"]  # b
    residual: Float[Array, " D"]  # variance that the line leaves over
    mean: Float[Array, " D"] | None  # at ``at``, where it depends on parameters of the likelihood; else None
    root: Float[Array, "N N"] | None = None  # of the covariance of sigma points, where they follow parameters too

    def slope_and_shift(
        self, likelihood: Likelihood, context: Context, parameters: Parameters
    ) -> tuple[Float[Array, "D N"], Float[Array, " D"]]:
        """``A`` and ``b``. Where they depend on parameters of the likelihood, the solver is asked at these."""
        if self.mean is None:
            return self.slope, self.intercept
        mean = _mean(likelihood, context, parameters)
        slope = (_jacobian(mean, *self.slope.shape) if self.root is None else _regression(mean, self.root))(self.at)
        bend = self.intercept + self.slope @ self.at - self.mean  # of the mean over draws, beside that at one point
        return slope, mean(self.at) - slope @ self.at + bend

    def variance(self, likelihood: Likelihood, context: Context, parameters: Parameters) -> Float[Array, " D"]:
        """Of the data around the line. Where it does not depend on the solution, the compiler leaves the solver out."""
        return _variance(likelihood, context, parameters, self.at, self.residual.shape[0]) + self.residual

    def log_density(
        self,
        likelihood: Likelihood,
        y: Float[Array, " D"],
        seen: Bool[Array, " D"],
        context: Context,
        parameters: Parameters,
        f: Float[Array, " N"],
    ) -> Float[Array, ""]:
        """Of the data, as this takes them to be."""
        variance = self.variance(likelihood, context, parameters)
        slope, shift = self.slope_and_shift(likelihood, context, parameters)
        apart = y - shift - slope @ f
        return jnp.sum(jnp.where(seen, -0.5 * (apart**2 / variance + jnp.log(2 * jnp.pi * variance)), 0.0))


class SolverData(NamedTuple):
    """The data of a snapshot whose likelihood sees all of the latent, flat; what is missing holds any value."""

    y: Float[Array, " D"]
    seen: Bool[Array, " D"]
    context: Context


def check_linearisable(model: Model, snapshot: Snapshot) -> bool:
    """Whether JAX differentiates the mean of the data; raises, with a remedy, unless they have a variance."""
    remedy = "use seqgp.SequentialSampler"
    try:
        joint, smooth = cached_by_shape(_joint_and_differentiable, model, snapshot.x, snapshot.context)
    except (NotImplementedError, TypeError, ValueError, AssertionError) as error:
        why = str(error).strip().split("\n")[0]
        raise ModelError(
            "OnlineSampler: the likelihood sees all of the latent, and its distribution has no mean and variance that "
            f"JAX can evaluate ({type(error).__name__}: {why}); {remedy}"
        ) from error
    if joint:
        raise ModelError(f"OnlineSampler: the likelihood's distribution is joint over the elements of y; {remedy}")
    return smooth


def _joint_and_differentiable(model: Model, x: np.ndarray, context: Context) -> tuple[bool, bool]:
    """Whether the distribution does not fall into elements, and whether its mean has derivatives of both kinds."""
    parameters = model.parameters(jnp.asarray(model.prior_of_z()[0]))
    joint = False

    def probe(f):
        nonlocal joint
        distribution = model.likelihood.distribution(f, context, parameters)
        joint = bool(distribution.event_shape)
        return jnp.ravel(jnp.asarray(distribution.mean)), jnp.ravel(jnp.asarray(distribution.variance))

    f = jax.ShapeDtypeStruct((len(x),), float)
    jax.eval_shape(probe, f)
    return joint, _differentiable(lambda f: probe(f)[0], f)


def _differentiable(mean: Callable[[Array], Array], f: jax.Array | jax.ShapeDtypeStruct) -> bool:
    """Whether JAX differentiates it both ways; it is traced, and not evaluated."""
    like = jax.ShapeDtypeStruct(f.shape, f.dtype)
    try:
        jax.eval_shape(lambda u: jax.jacfwd(mean)(u), like)
        jax.eval_shape(lambda u: jax.vjp(mean, u)[0], like)
    except (NotImplementedError, TypeError, ValueError, AssertionError):
        return False
    return True


def log_likelihood(likelihood: Likelihood, data: SolverData, parameters: Parameters, f) -> Float[Array, ""]:
    """The log density of the data that are there."""
    distribution = likelihood.distribution(f, data.context, parameters)
    each = jnp.ravel(distribution.log_prob(data.y.reshape(distribution.batch_shape)))
    return jnp.sum(jnp.where(data.seen, each, 0.0))


def linearise(
    likelihood: Likelihood,
    data: SolverData,
    parameters: Parameters,
    f: Float[Array, " N"],
    f_cov: Float[Array, "N N"],
    white: Float[Array, "K N"],
) -> Linearisation:
    """The data as Gaussian data of ``f``, near its posterior.

    Args:
        likelihood: the likelihood.
        data: of the snapshot.
        parameters: at which the posterior is taken.
        f: the predicted mean ``m`` of ``f``.
        f_cov: the predicted covariance ``V``.
        white: standard normal numbers; each is used with its negative.
    """
    mean, size = _mean(likelihood, data.context, parameters), data.y.shape[0]
    smooth = _differentiable(mean, f)
    jacobian = _jacobian(mean, size, f.shape[0]) if smooth else _regression(mean, NEAR / SIGMA * _root(f_cov, f_cov))
    mode = _mode(likelihood, data, parameters, mean, jacobian, f, f_cov)
    slope = jacobian(mode)
    root = None if smooth else _root(f_cov, f_cov)
    first = Linearisation(mode, slope, mean(mode) - slope @ mode, jnp.zeros(size), None, root)
    follows = _follows_parameters(likelihood, data.context, parameters, mode)

    def refine(_, line: Linearisation) -> Linearisation:
        centre, root = _posterior(likelihood, data, parameters, line, f, f_cov)
        draws = centre[None, :] + jnp.concatenate([white, -white]) @ root.T
        means = jax.vmap(mean)(draws)
        slope = jnp.mean(jax.vmap(jacobian)(draws), axis=0) if smooth else _regression(mean, root)(centre)
        intercept = jnp.mean(means, axis=0) - slope @ centre
        residual = jnp.mean((means - draws @ slope.T - intercept[None, :]) ** 2, axis=0)
        new = Linearisation(centre, slope, intercept, residual, None, None if smooth else root)
        fine = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]).all()
        return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, line)

    line = jax.lax.fori_loop(0, ROUNDS, refine, first)
    return line._replace(mean=mean(line.at)) if follows else line._replace(root=None)


def _mean(likelihood: Likelihood, context: Context, parameters: Parameters) -> Callable[[Array], Float[Array, " D"]]:
    return lambda f: jnp.ravel(jnp.asarray(likelihood.distribution(f, context, parameters).mean))


def _jacobian(mean: Callable[[Array], Array], data: int, size: int) -> Callable[[Array], Float[Array, "D N"]]:
    return jax.jacrev(mean) if data < size else jax.jacfwd(mean)


def _regression(mean: Callable[[Array], Array], root: Float[Array, "N N"]) -> Callable[[Array], Float[Array, "D N"]]:
    """The slope of the data's mean by regression on sigma points, ``SIGMA`` along each column of a root, and back."""
    away = SIGMA * root.T

    def slope(f):
        rise = (jax.vmap(mean)(f + away) - jax.vmap(mean)(f - away)) / (2 * SIGMA)
        return solve_lower(root, rise, transpose=True).T

    return slope


def _variance(likelihood: Likelihood, context: Context, parameters: Parameters, f, size: int) -> Float[Array, " D"]:
    distribution = likelihood.distribution(f, context, parameters)
    return jnp.broadcast_to(jnp.ravel(jnp.asarray(distribution.variance)), (size,))


def _follows_parameters(likelihood: Likelihood, context: Context, parameters: Parameters, f) -> bool:
    """Whether the mean of the data depends on parameters of the likelihood that are inferred, as its trace says."""
    inferred = {
        name: jnp.asarray(parameters[name])
        for name, slot in likelihood.priors.items()
        if any(isinstance(entry, Prior) for entry in (slot if isinstance(slot, tuple) else (slot,)))
    }
    jaxpr = jax.make_jaxpr(lambda own: _mean(likelihood, context, {**parameters, **own})(f))(inferred).jaxpr
    reached = set(jaxpr.invars)

    def reaches(variables) -> bool:
        return any(not hasattr(variable, "val") and variable in reached for variable in variables)

    for equation in jaxpr.eqns:
        if reaches(equation.invars):
            reached |= set(equation.outvars)
    return reaches(jaxpr.outvars)


def _mode(likelihood: Likelihood, data: SolverData, parameters: Parameters, mean, jacobian, f, f_cov):
    """The most probable ``f``, by damped Gauss–Newton steps."""

    def log_posterior(dual):  # u = m + V dual
        shift = f_cov @ dual
        return log_likelihood(likelihood, data, parameters, f + shift) - 0.5 * dual @ shift

    def gauss_newton(dual):
        u = f + f_cov @ dual
        slope = jacobian(u)
        line = Linearisation(u, slope, mean(u) - slope @ u, jnp.zeros(data.y.shape[0]), None)
        return _dual(likelihood, data, parameters, line, f, f_cov)[0]

    return f + f_cov @ damped_newton(log_posterior, gauss_newton, jnp.zeros_like(f), enough=GAIN)


def _dual(likelihood: Likelihood, data: SolverData, parameters: Parameters, line: Linearisation, f, f_cov):
    """``d`` with posterior mean ``m + V d``, and ``half`` with posterior covariance ``V − half' half``."""
    slope = jnp.where(data.seen[:, None], line.slope, 0.0)
    variance = jnp.where(data.seen, line.variance(likelihood, data.context, parameters), 1.0)
    apart = jnp.where(data.seen, data.y - line.intercept - slope @ f, 0.0)
    cross = slope @ f_cov
    root = cholesky(cross @ slope.T + jnp.diag(variance))
    return slope.T @ solve_lower(root, solve_lower(root, apart), transpose=True), solve_lower(root, cross)


def _posterior(likelihood: Likelihood, data: SolverData, parameters: Parameters, line: Linearisation, f, f_cov):
    """Mean and root of the covariance of ``f``."""
    dual, half = _dual(likelihood, data, parameters, line, f, f_cov)
    return f + f_cov @ dual, _root(f_cov - half.T @ half, f_cov)


def _root(covariance: Float[Array, "N N"], before: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """Of a covariance, with rounding of what it was before on its diagonal."""
    floor = ROUNDING * jnp.mean(jnp.diagonal(before)) * jnp.eye(len(before))
    return cholesky(0.5 * (covariance + covariance.T) + floor)
