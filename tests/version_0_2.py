"""Two tiny runs as version 0.2.0 wrote them; with it, ``python tests/version_0_2.py FOLDER`` writes them anew."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp

WRITTEN = Path(__file__).parent / "io" / "version_0_2"
kernels, likelihoods = getattr(seqgp, "kernels", seqgp), getattr(seqgp, "likelihoods", seqgp)


def stations(high=3.0):
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=kernels.Matern32(lengthscale=seqgp.ScaledSigmoid(0, high)), space=kernels.Matern12(1.0), scale=1.0
        ),
        mean=dist.Normal(0.0, 1.0),
        likelihood=likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)),
    )


def solver(high=3.0):
    """A likelihood that sees all of the latent, so that a linearisation of each snapshot is stored."""

    def total(f, context, noise):
        return dist.Normal(jnp.cumsum(f), noise)

    kernel = stations(high).kernel
    return seqgp.Model(kernel=kernel, mean=0.0, likelihood=likelihoods.Likelihood(total, noise=0.5))


MODELS = {"stations": stations, "solver": solver}


def sampler(name, **changes):
    return seqgp.OnlineSampler(MODELS[name](**changes), particles=16, draws=8)


def snapshots(count):
    x = np.random.default_rng(0).random((3, 2))
    rows = [np.sin(3 * x[:, 0] + 0.5 * i) + 0.1 * np.random.default_rng(i).normal(size=3) for i in range(count)]
    return [seqgp.Snapshot(0.5 * i, x, y) for i, y in enumerate(rows)]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for name in MODELS:
        seqgp.run(sampler(name), snapshots(2), jax.random.key(7), store=Path(sys.argv[1]) / name)
