"""What a step says of itself: particles that has collapsed is never passed over in silence."""

import jax
import numpy as np
import pytest

import seqgp
import small
from seqgp.samplers.ibis import Particles

X = np.random.default_rng(0).random((5, 1))


def ended(scale: float) -> seqgp.Info:
    """After a snapshot of data in some unit."""
    sampler = seqgp.OnlineSampler(small.model(time=seqgp.kernels.Matern12(2.0)), particles=16, draws=20)
    y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(5)
    return sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, X, scale * y))[1]


def test_a_collapsed_cloud_is_said():
    """In units in which the data are 1e8 times what the priors expect, no particles of 16 finds the posterior."""
    assert not ended(1.0).warnings
    info = ended(1e8)
    assert info.ess is not None
    assert info.ess < 4
    assert any("particles are effective: the data lie far from what the priors expect" in w for w in info.warnings)


def test_copies_count_as_one_particle():
    z = np.repeat(np.arange(4.0)[:, None], 3, axis=0)
    none = np.zeros(12)
    particles = Particles(z, none, none, none, none, 0.0)
    assert particles.ess() == pytest.approx(12)
    assert particles.distinct_ess() == pytest.approx(4)


def test_rows_that_repeat_with_almost_no_noise():
    """Right down to the least noise that is taken (six sds), below which it is refused by name."""
    twice = np.concatenate([X, X])
    snapshot = seqgp.Snapshot(0.0, twice, np.sin(twice[:, 0]))

    def sampler(noise):
        return seqgp.OnlineSampler(small.model(likelihood=seqgp.likelihoods.Gaussian(noise)), particles=16, draws=20)

    state, _ = sampler(1e-6).init(jax.random.key(0), snapshot)
    assert np.abs(state.latent - snapshot.y).max() < 6e-6
    with pytest.raises(seqgp.ModelError, match="a noise of 1e-09 is lost"):
        sampler(1e-9).init(jax.random.key(0), snapshot)


@pytest.mark.parametrize("terms", [1, 2])
def test_knots_that_are_too_few_are_said(terms):
    """Of moving inputs the latent is on knots: where they are too far apart, so is the evidence from the exact one."""
    rng = np.random.default_rng(0)
    data = [seqgp.Snapshot(t, rng.uniform(0, 10, (12, 1)), rng.standard_normal(12)) for t in (0.0, 0.1)]
    ends = seqgp.Snapshot(0.0, np.concatenate([[[0.0], [10.0]], data[0].x]), np.zeros(14))

    def last(lengthscale: float) -> seqgp.Info:
        kernel = seqgp.Separable(seqgp.kernels.Matern32(0.7), seqgp.kernels.SquaredExponential(lengthscale))
        kernel = (
            kernel
            if terms == 1
            else kernel + seqgp.Separable(seqgp.kernels.Matern12(3.0), seqgp.kernels.SquaredExponential(5.0))
        )
        sampler = seqgp.OnlineSampler(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3)), particles=16, draws=20)
        return seqgp.run(sampler, [ends, data[1]], key=jax.random.key(0), forecast=False).infos[-1]

    wide, short = last(2.0), last(0.3)
    assert wide.settings["latent"] == short.settings["latent"] == "knots"
    assert not wide.warnings
    assert wide.extras["represented"] > 0.999
    assert short.extras["represented"] < 0.99
    assert any(w.startswith("too few knots: they represent only") and "would do" in w for w in short.warnings)
