"""Tiny runs: what the tests of the store, the command line and the report need, in seconds."""

import jax
import numpy as np

import seqgp

TIMES = (0.0, 0.1, 0.25, 0.3, 0.5, 0.55)


def model(high=3.0):
    between = seqgp.ScaledSigmoid(0, high)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.SquaredExponential(lengthscale=between),
            space=seqgp.kernels.SquaredExponential(lengthscale=[between, 1.0]),
            scale=seqgp.ScaledSigmoid(0, 2),
        ),
        mean=seqgp.ScaledSigmoid(-1, 1),
        likelihood=seqgp.likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)),
    )


def sampler(draws=20, **more):
    settings = {"chains": 2, "warmup": 10, "thin": 1, "updates": "plain", "latent": seqgp.Dense()}
    return seqgp.SequentialSampler(model(), draws=draws, **(settings | more))


def snapshots(count=6, n=5):
    x = np.random.default_rng(0).random((n, 2))
    return [
        seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) + 0.1 * np.random.default_rng(i).normal(size=n))
        for i, t in enumerate(TIMES[:count])
    ]


def key():
    return jax.random.key(7)


def same(a, b):
    """Whether two states are equal bit for bit; NaN equals NaN."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)
