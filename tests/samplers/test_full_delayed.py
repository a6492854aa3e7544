"""``FullSampler`` with a delay: the posterior of the dense kernel over all times."""

import jax
import numpy as np

import seqgp
from dense_delay import matern


def test_the_posterior_is_that_of_the_kernel():
    """Known parameters: means within 5 standard errors of 600 draws (effective ones: half), variances within 30%."""
    rng = np.random.default_rng(0)
    x, s = np.array([[0.0], [1.0], [1.7]]), 0.8
    snapshots = [seqgp.Snapshot(t, x, rng.normal(size=3)) for t in (0.0, 0.5, 0.9)]
    snapshots[1].y[2] = np.nan
    kernel = seqgp.Delayed(seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern12(2.0), 1.2), slowness=[s])
    model = seqgp.Model(kernel + seqgp.Separable(seqgp.kernels.Matern12(0.7), seqgp.kernels.Matern12(1.0), 0.5),
                        seqgp.likelihoods.Gaussian(noise=0.4))  # fmt: skip
    state, _ = seqgp.FullSampler(model, draws=600).sample(jax.random.key(0), snapshots)
    t, place = np.repeat([0.0, 0.5, 0.9], 3), np.tile(x[:, 0], 3)
    lag, distance = t[:, None] - t, place[:, None] - place
    cov = 1.44 * matern(2, lag - s * distance) * np.exp(-np.abs(distance) / 2)
    cov = cov + 0.25 * np.exp(-np.abs(lag) / 0.7) * np.exp(-np.abs(distance))
    y = np.concatenate([one.y for one in snapshots])
    seen = ~np.isnan(y)
    gain = np.linalg.solve(cov[np.ix_(seen, seen)] + 0.16 * np.eye(seen.sum()), cov[seen]).T
    mean, var = gain @ y[seen], np.diag(cov - gain @ cov[seen])
    draws = np.concatenate([np.asarray(one) for one in state.latent], axis=1)
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(var / 300))
    np.testing.assert_allclose(draws.var(0), var, rtol=0.3)
