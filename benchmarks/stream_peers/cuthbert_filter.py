"""cuthbert: the log likelihood of many parameter values by the square-root Kalman filter of cuthbertlib."""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
from cuthbertlib import kalman
from problem import load, some_values, tell

jax.config.update("jax_enable_x64", True)
VALUES = 256


def log_likelihood(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """``log p(y | theta)``, for ``theta`` as logarithms."""
    l_t, l_x, scale, noise = jnp.exp(theta)
    n = len(x)
    r = jnp.sqrt(3 * ((x[:, None] - x[None]) ** 2).sum(-1)) / l_x
    root = jnp.linalg.cholesky(scale**2 * (1 + r) * jnp.exp(-r) + 1e-10 * jnp.eye(n))
    a, zero, eye = jnp.exp(-1 / l_t), jnp.zeros(n), jnp.eye(n)

    def step(carry, row):
        mean, chol = carry
        (mean, chol), log_density = kalman.filter_update(mean, chol, eye, zero, noise * eye, row)
        return kalman.predict(mean, chol, a * eye, zero, jnp.sqrt(1 - a**2) * root), log_density

    return jax.lax.scan(step, (zero, root), y)[1].sum()


def main() -> None:
    """The filter alone: cuthbert leaves the parameters to its user."""
    stream = load()
    x, y = jnp.asarray(stream.x), jnp.asarray(stream.y)
    values = jnp.asarray(some_values(VALUES))
    run = jax.jit(lambda theta: jax.lax.map(lambda one: log_likelihood(one, x, y), theta))
    found = run(values).block_until_ready()
    start = time.perf_counter()
    run(values).block_until_ready()
    tell(filter_seconds=time.perf_counter() - start, log_likelihood=found)


if __name__ == "__main__":
    main()
