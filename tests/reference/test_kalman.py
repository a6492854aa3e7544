"""The Kalman filter and smoother are Gaussian process regression, done in the order of time."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from seqgp.reference import gaussian_posterior, kalman_filter, kalman_smoother
from seqgp.reference.marginal import log_marginal, observed_distances, stack


def sequence(missing=0.3, steps=6, n=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    times = np.cumsum(rng.uniform(0.1, 0.6, size=steps))
    y = np.where(rng.uniform(size=(steps, n)) < missing, np.nan, rng.normal(size=(steps, n)))
    return [seqgp.Snapshot(t=t, x=x, y=row) for t, row in zip(times, y)]


def model(time):
    parts = {
        "space": seqgp.kernels.Matern32(0.5),
        "scale": 1.3,
        "mean": 0.2,
        "likelihood": seqgp.likelihoods.Gaussian(0.4),
    }
    return small.model(time=time, jitter=1e-10, **parts)


@pytest.mark.parametrize(
    "time",
    [seqgp.kernels.Matern12(0.7), seqgp.kernels.Matern32(0.7), seqgp.kernels.Matern52(0.7)],
    ids=lambda k: type(k).__name__,
)
def test_filter_and_smoother_are_exact(time):
    known, snapshots = model(time), sequence()
    parameters = known.parameters(jnp.zeros(0))
    filtered, smoothed = kalman_filter(known, snapshots), kalman_smoother(known, snapshots)
    everything = gaussian_posterior(known, snapshots, parameters)
    for t in (0, 2, 5):
        exact = gaussian_posterior(known, snapshots[: t + 1], parameters)[-1]
        np.testing.assert_allclose(filtered.mean[t], exact.mean, atol=1e-7)
        np.testing.assert_allclose(filtered.covariance[t], exact.covariance, atol=1e-7)
        np.testing.assert_allclose(smoothed.mean[t], everything[t].mean, atol=1e-6)
        np.testing.assert_allclose(smoothed.covariance[t], everything[t].covariance, atol=1e-6)
    data = stack(known, snapshots)
    evidence = log_marginal(known, data, observed_distances(known, data), parameters)
    assert filtered.log_likelihood == pytest.approx(float(evidence), abs=1e-6)


def test_a_time_without_data_is_predicted():
    snapshots = sequence(missing=0.0)
    blank = snapshots[-1]._replace(y=np.full(4, np.nan))
    filtered = kalman_filter(model(seqgp.kernels.Matern12(0.7)), [*snapshots[:-1], blank])
    weight = np.exp(-(snapshots[-1].t - snapshots[-2].t) / 0.7)
    np.testing.assert_allclose(filtered.mean[-1] - 0.2, weight * (filtered.mean[-2] - 0.2), rtol=1e-10)


@pytest.mark.parametrize("method", [kalman_filter, kalman_smoother])
def test_covariates_shift_the_data(method):
    """The level of data minus the covariates' effect, plus that effect; the evidence is the same."""
    plain, heights = sequence(), np.random.default_rng(1).normal(size=(6, 4))
    shifted = [s._replace(y=s.y + 0.7 * h, context={"height": h}) for s, h in zip(plain, heights)]
    constant = model(seqgp.kernels.Matern32(0.7))
    linear = seqgp.Model(
        constant.kernel,
        constant.likelihood,
        seqgp.means.Linear(["height"], weights=0.7, intercept=0.2),
        constant.jitter,
    )
    expected, found = method(constant, plain), method(linear, shifted)
    np.testing.assert_allclose(found.mean, expected.mean + 0.7 * heights, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9, atol=1e-12)
    if method is kalman_filter:
        assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-9)


def test_what_the_filter_cannot_do_is_said():
    snapshots = sequence()
    with pytest.raises(seqgp.ModelError, match="Markov time kernel"):
        kalman_filter(model(seqgp.kernels.SquaredExponential(1.0)), snapshots)
    with pytest.raises(seqgp.ModelError, match=r"time\.lengthscale have priors"):
        kalman_filter(model(seqgp.kernels.Matern12(seqgp.ScaledSigmoid(0, 1))), snapshots)
    moved = seqgp.Snapshot(t=9.0, x=snapshots[0].x + 1, y=snapshots[0].y)
    with pytest.raises(seqgp.DataError, match=r"same x at every time.*9\.0"):
        kalman_filter(model(seqgp.kernels.Matern12(0.7)), [*snapshots, moved])
