"""dynamax: log likelihoods of many parameters by `lgssm_filter`, and NumPyro's NUTS on them, refitted in batch."""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from dynamax.linear_gaussian_ssm import lgssm_filter
from dynamax.linear_gaussian_ssm.inference import make_lgssm_params
from numpyro.infer import MCMC, NUTS
from problem import PRIOR, load, some_values, summary, tell

jax.config.update("jax_enable_x64", True)
VALUES, WARMUP, DRAWS = 256, 300, 300


def log_likelihood(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """``log p(y | theta)``, for ``theta`` as logarithms."""
    l_t, l_x, scale, noise = jnp.exp(theta)
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    r = jnp.sqrt(3 * jnp.where(squared > 0, squared, 1.0)) * (squared > 0) / l_x
    K, n = scale**2 * (1 + r) * jnp.exp(-r) + 1e-10 * jnp.eye(len(x)), len(x)
    a = jnp.exp(-1 / l_t)
    params = make_lgssm_params(jnp.zeros(n), K, a * jnp.eye(n), (1 - a**2) * K, jnp.eye(n), noise**2 * jnp.eye(n))
    return lgssm_filter(params, y).marginal_loglik


def refit(x: jax.Array, y: jax.Array, seed: int) -> tuple[np.ndarray, float]:
    """Draws of the parameters by NUTS, and the seconds without compilation."""

    def model():
        theta = numpyro.sample("theta", dist.Normal(PRIOR[:, 0], PRIOR[:, 1]).to_event(1))
        numpyro.factor("y", log_likelihood(theta, x, y))

    mcmc = MCMC(NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, progress_bar=False)
    mcmc.run(jax.random.key(seed))  # compiles
    start = time.perf_counter()
    mcmc.run(jax.random.key(seed + 1))
    draws = np.asarray(mcmc.get_samples()["theta"])
    return draws, time.perf_counter() - start


def main() -> None:
    """The filter alone, and refits after 10, 20, … snapshots."""
    stream = load()
    x, y = jnp.asarray(stream.x), jnp.asarray(stream.y)
    values = jnp.asarray(some_values(VALUES))
    run = jax.jit(lambda theta: jax.lax.map(lambda one: log_likelihood(one, x, y), theta))
    found = run(values).block_until_ready()
    start = time.perf_counter()
    run(values).block_until_ready()
    filter_seconds = time.perf_counter() - start
    refits = [refit(x, y[:t], t) for t in range(10, len(y) + 1, 10)]
    ess = min(numpyro.diagnostics.effective_sample_size(refits[-1][0][None]))
    tell(
        filter_seconds=filter_seconds,
        log_likelihood=found,
        seconds=sum(s for _, s in refits),
        ess=ess,
        **summary(np.exp(refits[-1][0])),
    )


if __name__ == "__main__":
    main()
