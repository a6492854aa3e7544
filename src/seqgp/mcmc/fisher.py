"""A quadratic approximation of the log likelihood at a point: its gradient, and a root of its Fisher information.

For data around a computed mean, ``H = J' V⁻¹ J`` with the Jacobian ``J`` of the mean and the variance ``V``
(Gauss–Newton; exact Fisher information for Gaussian, Poisson and Bernoulli data). It is positive semidefinite whatever
the point, and no second derivative is taken. Distributions without mean or variance fall back on the Hessian, its
negative eigenvalues clipped.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.kernels.base import Parameters
from seqgp.likelihoods.base import Likelihood
from seqgp.linalg.types import Array
from seqgp.mcmc.observed import Observed

Factor = Float[Array, " S"] | Float[Array, "S r"]


def quadratic_of(
    likelihood: Likelihood, observed: tuple[Observed, ...], sites: Float[Array, "P S"], parameters: Parameters
) -> tuple[Factor, Float[Array, " PS"]]:
    """``(F, b)`` of ``−½ u'FF'u + b'u`` in ``f`` at the sites of all present blocks, found at ``sites``.

    Where the likelihood has an exact one (Gaussian data, of unit noise), it does not depend on the point.
    """
    parts = [_block(likelihood, seen, sites[i], parameters) for i, seen in enumerate(observed)]
    slope = jnp.concatenate([slope for _, slope in parts])
    factors = [factor for factor, _ in parts]
    if all(factor.ndim == 1 for factor in factors):
        return jnp.concatenate(factors), slope
    if len(factors) == 1:
        return factors[0], slope
    full = [jnp.diag(factor) if factor.ndim == 1 else factor for factor in factors]
    return jax.scipy.linalg.block_diag(*full), slope


def _block(likelihood: Likelihood, observed: Observed, sites: Float[Array, " S"], parameters: Parameters):
    if observed.sums is not None:
        curvature, slope = observed.sums.quadratic()
        return _psd_root(curvature), slope
    exact = likelihood.exact_quadratic(observed.y, observed.missing, observed.context)
    if exact is not None:
        precision, weighted = exact
        return _to_sites(observed, jnp.sqrt(precision), sites.shape[0]), _to_sites(observed, weighted, sites.shape[0])
    gradient = jax.grad(lambda s: observed.log_likelihood(likelihood, s, parameters))(sites)
    try:
        factor = _gauss_newton(likelihood, observed, sites, parameters)
    except NotImplementedError:
        hessian = jax.hessian(lambda s: observed.log_likelihood(likelihood, s, parameters))(sites)
        factor = _psd_root(-hessian)
    factor, gradient = jnp.nan_to_num(factor, posinf=0.0), jnp.nan_to_num(gradient)
    f = sites + parameters["mean"]
    for name in observed.columns:
        f = f + observed.columns_at_sites(name, sites.shape[0]) @ jnp.atleast_1d(parameters[name])
    curved = factor**2 * f if factor.ndim == 1 else factor @ (factor.T @ f)
    return factor, curved + gradient


def _to_sites(observed: Observed, values: Float[Array, " N"], size: int) -> Float[Array, " S"]:
    index = observed.observe.index
    return values if index is None else jnp.zeros(size, values.dtype).at[index].set(values)


def _gauss_newton(likelihood: Likelihood, observed: Observed, sites, parameters) -> Factor:
    def distribution(s):
        return likelihood.distribution(observed.f(s, parameters), observed.context, parameters)

    def location(s):
        return jnp.ravel(jnp.asarray(distribution(s).mean))

    variance = jnp.ravel(jnp.broadcast_to(distribution(sites).variance, observed.y.shape))
    weight = jnp.where(observed.missing.ravel(), 0.0, jax.lax.rsqrt(variance))
    size, data = sites.shape[0], weight.shape[0]
    if likelihood.pointwise and observed.observe.weights is None:
        along = jax.jvp(location, (sites,), (jnp.ones_like(sites),))[1]
        return _to_sites(observed, jnp.abs(along) * weight, size)
    if likelihood.pointwise:
        # Few knots, many data: the curvature is gathered in the knots.
        def mean_given(f):
            return jnp.ravel(jnp.asarray(likelihood.distribution(f, observed.context, parameters).mean))

        f = observed.f(sites, parameters)
        along = jax.jvp(mean_given, (f,), (jnp.ones_like(f),))[1]
        half = (along * weight)[:, None] * jnp.asarray(observed.observe.weights)
        return half.T if data <= size else _psd_root(half.T @ half)
    jacobian = jax.jacrev(location)(sites) if data < size else jax.jacfwd(location)(sites)
    half = weight[:, None] * jacobian
    return half.T if data <= size else _psd_root(half.T @ half)


def _psd_root(matrix: Float[Array, "S S"]) -> Float[Array, "S S"]:
    """``F`` with ``F F'`` the positive part of a symmetric matrix."""
    values, vectors = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]


def log_precision(
    likelihood: Likelihood, observed: tuple[Observed, ...], sites: Float[Array, "P S"], parameters: Parameters
) -> Float[Array, ""]:
    """The log of the mean precision of the data at a point: the approximation follows how it grows with ``z``."""
    total = jnp.zeros(())
    for i, seen in enumerate(observed):
        distribution = likelihood.distribution(seen.f(sites[i], parameters), seen.context, parameters)
        precision = 1.0 / jnp.broadcast_to(distribution.variance, seen.y.shape)
        total = total + jnp.sum(jnp.where(seen.missing | ~jnp.isfinite(precision), 0.0, precision))
    return jnp.log(total)
