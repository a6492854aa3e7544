"""The curvature of a log likelihood at a point, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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
