"""A likelihood that sees all of the latent, and is linear in it: linearisations are exact."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp

SEEN = np.array([[1.0, 0.5, -0.3, 0.2], [0.4, -1.0, 0.8, 0.1], [0.1, 0.3, 1.2, -0.7]])  # three data of four sites


def linear_model():
    seen = jnp.asarray(SEEN)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.Matern32(seqgp.ScaledSigmoid(0, 6)),
            space=seqgp.kernels.Matern12(0.5),
            scale=seqgp.ScaledSigmoid(0, 3),
        ),
        mean=dist.Normal(0.0, 1.0),
        likelihood=seqgp.likelihoods.Likelihood(lambda f, context, noise: dist.Normal(seen @ f, noise), noise=0.3),
    )


def linear_data(steps=4):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 4)[:, None]
    field = 0.4 + np.cumsum(0.4 * rng.normal(size=(steps, 4)), axis=0)
    y = field @ SEEN.T + 0.3 * rng.normal(size=(steps, 3))
    y[1, 2] = np.nan
    return [seqgp.Snapshot(0.5 * t, x, row) for t, row in enumerate(y)]
