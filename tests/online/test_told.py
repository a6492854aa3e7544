"""What a step says of itself: a cloud that has collapsed is never passed over in silence."""

import jax
import numpy as np
import pytest

import seqgp
import small
from seqgp.online.cloud import Cloud

X = np.random.default_rng(0).random((5, 1))


def ended(scale: float) -> seqgp.Info:
    """After a snapshot of data in some unit."""
    sampler = seqgp.OnlineSampler(small.model(time=seqgp.Matern12(2.0)), particles=16, draws=20)
    y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(5)
    return sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, X, scale * y))[1]


def test_a_collapsed_cloud_is_said():
    """In units in which the data are 1e8 times what the priors expect, no cloud of 16 finds the posterior."""
    assert not ended(1.0).warnings
    info = ended(1e8)
    assert info.effective is not None
    assert info.effective < 4
    assert any("particles are effective: the data lie far from what the priors expect" in w for w in info.warnings)


def test_copies_count_as_one_particle():
    z = np.repeat(np.arange(4.0)[:, None], 3, axis=0)
    none = np.zeros(12)
    cloud = Cloud(z, none, none, none, none, 0.0)
    assert cloud.effective() == pytest.approx(12)
    assert cloud.distinct() == pytest.approx(4)


def test_rows_that_repeat_with_almost_no_noise():
    """Right down to the least noise that is taken (six sds), below which it is refused by name."""
    twice = np.concatenate([X, X])
    snapshot = seqgp.Snapshot(0.0, twice, np.sin(twice[:, 0]))

    def sampler(noise):
        return seqgp.OnlineSampler(small.model(likelihood=seqgp.Gaussian(noise)), particles=16, draws=20)

    state, _ = sampler(1e-6).init(jax.random.key(0), snapshot)
    assert np.abs(state.latent - snapshot.y).max() < 6e-6
    with pytest.raises(seqgp.ModelError, match="a noise of 1e-09 is lost"):
        sampler(1e-9).init(jax.random.key(0), snapshot)
