"""Predictions of transformed data in their own units, against SciPy's densities."""

import jax
import numpy as np
import pytest
import scipy.stats

import seqgp
from seqgp.base.errors import DataError
from seqgp.base.transforms import Transform
from seqgp.evaluate.forecaster import Forecaster
from seqgp.evaluate.transformed import in_units
from seqgp.kernels import Matern12
from seqgp.likelihoods import Gaussian

LOG, SQRT = Transform("log"), Transform("sqrt")


@pytest.fixture(scope="module")
def fitted():
    """A model without unknown parameters and its state: all draws have one density, that of a Gaussian process."""
    model = seqgp.Model(seqgp.Separable(Matern12(2.0), Matern12(1.0), 0.7), Gaussian(0.3), mean=1.0)
    sampler = seqgp.OnlineSampler(model, particles=16, draws=4000)
    x = np.array([[0.0], [0.5], [2.0]])
    state, _ = sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, x, np.log([2.0, 3.0, 1.5])))
    return model, state, x


def exact(x):
    """Mean and covariance of ``log y`` at ``x`` one unit of time later, by dense algebra."""
    seen = np.array([[0.0], [0.5], [2.0]])

    def space(a, b):
        return 0.49 * np.exp(-np.abs(a - b.T))

    gain = np.exp(-0.5) * space(x, seen) @ np.linalg.inv(space(seen, seen) + 0.09 * np.eye(3))
    mean = 1.0 + gain @ (np.log([2.0, 3.0, 1.5]) - 1.0)
    return mean, space(x, x) - np.exp(-0.5) * gain @ space(seen, x) + 0.09 * np.eye(len(x))


def test_log_score_is_that_of_a_log_normal(fitted):
    """Jointly, with a missing value left out: the density of a multivariate log-normal variable."""
    model, state, x = fitted
    prediction = in_units(seqgp.predict(jax.random.key(1), model, state, x, 1.0), LOG)
    mean, cov = exact(x)
    y = np.array([2.5, np.nan, 0.8])
    keep = [0, 2]
    w = np.log(y[keep])
    truth = scipy.stats.multivariate_normal(mean[keep], cov[np.ix_(keep, keep)]).logpdf(w) - w.sum()
    assert prediction.log_score(y) == pytest.approx(truth, abs=1e-8)


def test_pointwise_log_score_and_draws(fitted):
    """Each value's log-normal density within Monte Carlo error; quantiles of draws are those of the log-normal."""
    model, state, x = fitted
    prediction = in_units(seqgp.predict(jax.random.key(1), model, state, x, 1.0), LOG)
    mean, cov = exact(x)
    truth = scipy.stats.lognorm(s=np.sqrt(np.diag(cov)), scale=np.exp(mean))
    y = np.array([2.5, 4.0, 0.8])
    np.testing.assert_allclose(prediction.log_score(y, pointwise=True), truth.logpdf(y), atol=0.12)
    for q in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(np.quantile(prediction.y, q, axis=0), truth.ppf(q), rtol=0.12)
    crps = np.mean([np.mean(abs(d - v)) - np.mean(abs(d[::2] - d[1::2])) / 2 for d, v in zip(prediction.y.T, y)])
    assert prediction.crps(y) == pytest.approx(crps, rel=0.05)


def test_a_zero_under_a_root_has_no_density(fitted):
    """It is left out of the log score, which is that of the others; zeros alone have none, and are said."""
    model, state, x = fitted
    prediction = in_units(seqgp.predict(jax.random.key(1), model, state, x, 1.0), SQRT)
    assert prediction.log_score([0.0, 2.0, 1.0]) == prediction.log_score([np.nan, 2.0, 1.0])
    with pytest.raises(DataError, match="no density"):
        prediction.log_score(np.zeros(3))
    with pytest.raises(DataError, match="y = -1 is not zero or above, so it has no sqrt"):
        prediction.log_score([-1.0, 2.0, 1.0])
    scores, _ = Forecaster(model, transform=SQRT)(jax.random.key(2), state, seqgp.Snapshot(1.0, x, np.zeros(3)))
    assert "log_score" not in scores
    assert scores["crps"] > 0


def test_the_forecaster_scores_in_units_of_the_data(fitted):
    """The same as a prediction in these units; the transform enters once."""
    model, state, x = fitted
    y = np.array([2.5, 1.0, 0.8])
    scores, _ = Forecaster(model, transform=LOG)(jax.random.key(3), state, seqgp.Snapshot(1.0, x, np.log(y)))
    plain, _ = Forecaster(model)(jax.random.key(3), state, seqgp.Snapshot(1.0, x, np.log(y)))
    assert scores["log_score"] == pytest.approx(plain["log_score"] - np.log(y).sum(), abs=1e-9)
    assert scores["coverage_95"] == plain["coverage_95"]
    assert scores["crps"] != pytest.approx(plain["crps"], rel=0.05)
