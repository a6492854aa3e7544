"""A seasonal amplitude in the observation row is the kernel times the amplitudes."""

import numpy as np

from dense_delay import Term, posterior, total
from seqgp.base.modulated import Season
from seqgp.statespace.delay_smoother import StationData, filter_pass, smooth_latent


def test_columns_are_harmonics():
    t = np.array([0.0, 0.25, 0.7])
    expected = [np.cos(4 * np.pi * t), np.sin(4 * np.pi * t), np.cos(8 * np.pi * t), np.sin(8 * np.pi * t)]
    np.testing.assert_allclose(Season(0.5, 2, "season").columns(t), np.stack(expected, axis=-1), atol=1e-12)
    np.testing.assert_allclose(
        Season(0.5, 1, "season").amplitude([0.3, -0.2], t), np.exp(0.3 * expected[0] - 0.2 * expected[1])
    )


def test_scale_and_noise_with_a_season_are_dense_algebra():
    """One term with a season, one without, delays, gaps, and noise with a season of its own."""
    rng = np.random.default_rng(0)
    terms = [Term(2, 1.5, 2.0, 1.0, [0.2, -0.1]), Term(1, 0.5, 0.6, 0.4, [0.0, 0.0])]
    x, times = rng.uniform(0, 2, (4, 2)), np.cumsum(rng.uniform(1.0, 2.5, 6))
    y = rng.normal(size=(6, 4))
    y[rng.uniform(size=y.shape) < 0.3] = np.nan
    scale = np.asarray(Season(7.0, 1, "season").amplitude([0.5, -0.4], times))
    variance = np.tile((0.3 * np.asarray(Season(7.0, 1, "season").amplitude([-0.2, 0.6], times)) ** 2)[:, None], (1, 4))
    amplitude = np.stack([scale, np.ones(6)], axis=1)
    dts = np.diff(times, prepend=times[0])
    data = StationData(dts, y, variance, np.eye(4), np.zeros((6, 4, 0)), amplitude)
    passed, log_prob = filter_pass([term.field(x) for term in terms], data, np.zeros(0))
    smoothed = smooth_latent(passed)
    t, places, each = np.repeat(times, 4), np.tile(x, (6, 1)), np.repeat(scale, 4)
    cov = each[:, None] * terms[0].cov(t, places, t, places) * each[None, :] + terms[1].cov(t, places, t, places)
    seen = ~np.isnan(y.ravel())
    mean, left, expected = posterior(
        cov[seen][:, seen], np.diag(variance.ravel()[seen]), y.ravel()[seen], cov[:, seen], cov
    )
    np.testing.assert_allclose(np.sum(log_prob), expected, atol=1e-10)
    np.testing.assert_allclose(smoothed.mean.ravel(), mean, atol=1e-10)
    np.testing.assert_allclose(
        np.concatenate([np.diag(one) for one in np.asarray(smoothed.cov)]), np.diag(left), atol=1e-10
    )
    plain = total(terms, t, places, t, places)
    assert np.max(np.abs(plain - cov)) > 0.1  # the season is there
