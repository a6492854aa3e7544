"""Two tiny runs as version 0.1.0 wrote them; with it, ``python tests/version_0_1.py FOLDER`` writes them anew."""

import sys
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp import kernels

WRITTEN = Path(__file__).parent / "io" / "version_0_1"
TIMES = (0.0, 0.1, 0.25)


def ready_made(high=3.0):
    between = seqgp.ScaledSigmoid(0, high)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=kernels.Matern32(lengthscale=between),
            space=kernels.SquaredExponential(lengthscale=[between, 1.0]),
            scale=dist.HalfNormal(2.0),
        ),
        mean=seqgp.ScaledSigmoid(-1, 1),
        likelihood=seqgp.likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)),
    )


def own(high=3.0):
    """A likelihood and a prior with functions of one's own."""
    factor = 2.0

    def curved(f, context, noise):
        return dist.Normal(factor * f, noise)

    return seqgp.Model(
        kernel=seqgp.Separable(
            time=kernels.Matern12(lengthscale=seqgp.ScaledSigmoid(0, high)),
            space=kernels.Matern12(1.0),
            scale=1.0,
        ),
        mean=seqgp.ScaledSigmoid(0, 1).through(lambda value: value**2),
        likelihood=seqgp.likelihoods.Likelihood(curved, noise=seqgp.ScaledSigmoid(0, 1)),
    )


MODELS = {"ready_made": ready_made, "own": own}


def sampler(name, **changes):
    settings = {"draws": 8, "chains": 2, "warmup": 4}
    return seqgp.SequentialSampler(MODELS[name](**changes), **settings)


def snapshots(count):
    x = np.random.default_rng(0).random((4, 2))
    return [
        seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) + 0.1 * np.random.default_rng(i).normal(size=4))
        for i, t in enumerate(TIMES[:count])
    ]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for name in MODELS:
        seqgp.run(sampler(name), snapshots(2), jax.random.key(7), store=Path(sys.argv[1]) / name)
