"""Known standard errors and a trend of the noise, in every sampler that takes them: against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.streams import exact, sampled

import seqgp
from seqgp.reference import gaussian_posterior, kalman_filter

RNG = np.random.default_rng(5)
X = RNG.random((4, 1))
TIMES = np.arange(8) * 0.5


def model(likelihood):
    return seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern32(2.0), seqgp.kernels.Matern12(0.5), 0.8), likelihood, mean=0.3
    )


def likelihood(noise, trend, errors):
    return seqgp.likelihoods.Gaussian(
        noise, errors="se" if errors else None, combine=errors or "times", trend=trend, since=2.0
    )


PRIORS = seqgp.ScaledSigmoid(0.05, 2.0), seqgp.ScaledSigmoid(-1.0, 1.0)


def data(errors):
    """Simulated with a noise that grows; with errors, a value is missing now and then."""
    missing = 0.2 if errors else 0.0
    y = np.where(RNG.random((len(TIMES), 4)) < missing, np.nan, 0.0)
    design = [seqgp.Snapshot(t, X, row, {"se": RNG.uniform(0.3, 3, 4)}) for t, row in zip(TIMES, y)]
    return list(seqgp.simulate(jax.random.key(3), model(likelihood(0.4, 0.35, errors)), design).snapshots)


@pytest.mark.parametrize("errors", [None, "times", "squares"])
def test_the_online_sampler_against_quadrature(errors):
    """Noise and trend within five standard errors; without errors the rotated filter has one noise for each time."""
    of, snapshots = model(likelihood(*PRIORS, errors)), data(errors)
    evidence, mean, sd = exact(of, snapshots)
    state, info = sampled(seqgp.OnlineSampler(of, particles=64, draws=500), snapshots)
    tolerance = 5 * max(info.log_evidence_se, 0.02)
    assert abs(info.log_evidence - evidence) < tolerance
    assert (np.abs(np.asarray(state.z).mean(0) - mean) < 5 * sd / np.sqrt(info.ess)).all()
    ignored, _, _ = exact(model(likelihood(PRIORS[0], None, None)), snapshots)  # a mutant
    assert abs(ignored - evidence) > tolerance


def test_all_times_at_once_against_quadrature():
    """The chains see each time's own noise: five standard errors, by the effective number of draws."""
    of, snapshots = model(likelihood(*PRIORS, "squares")), data("squares")
    _, mean, sd = exact(of, snapshots)
    state, info = seqgp.FullSampler(of, draws=600, chains=2).sample(jax.random.key(0), snapshots)
    assert (np.abs(np.asarray(state.z).mean(0) - mean) < 5 * sd / np.sqrt(info.min_ess)).all()


@pytest.mark.parametrize("make", [seqgp.OnlineSampler, seqgp.SequentialSampler])
def test_predictions_have_the_errors_of_the_new_data(make):
    """All known, one snapshot: level and log score in closed form."""
    of = model(likelihood(0.4, 0.35, "times"))
    se, y = np.array([0.5, 1.0, 2.0, 0.7]), np.array([0.1, 0.9, -0.4, 0.5])
    state, _ = make(of, draws=400).init(jax.random.key(0), seqgp.Snapshot(1.0, X, y, {"se": se}))
    new, later = np.array([[0.1], [0.8]]), np.array([1.0, 3.0])
    prediction = seqgp.predict(jax.random.key(1), of, state, new, t=1.5, context={"se": later})
    x = np.concatenate([X, new])
    k = 0.64 * np.exp(-np.abs(x - x.T) / 0.5)
    r = 3**0.5 * 0.5 / 2.0
    cross = k[4:, :4] * (1 + r) * np.exp(-r)
    gain = np.linalg.solve(k[:4, :4] + np.diag((0.4 * np.exp(-0.35) * se) ** 2), cross.T).T
    mean = 0.3 + gain @ (y - 0.3)
    covariance = k[4:, 4:] - gain @ cross.T
    noise = 0.4 * np.exp(0.35 * (1.5 - 2.0)) * later
    drawn = np.asarray(prediction.y)
    sd = np.sqrt(np.diag(covariance) + noise**2)
    assert (np.abs(drawn.mean(0) - mean) < 5 * sd / np.sqrt(200)).all()
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.2)
    truth = stats.multivariate_normal(mean, covariance + np.diag(noise**2)).logpdf([0.5, 0.0])
    assert abs(prediction.log_score([0.5, 0.0]) - truth) < (1e-6 if make is seqgp.OnlineSampler else 0.1)
    with pytest.raises(seqgp.DataError, match="errors 'se' is missing from the context, which has nothing"):
        seqgp.predict(jax.random.key(1), of, state, new)


def test_the_kalman_filter_of_the_reference_knows_them_too():
    of, snapshots = model(likelihood(0.4, 0.35, "squares")), data("squares")
    found = kalman_filter(of, snapshots)
    exactly = gaussian_posterior(of, snapshots, of.parameters(jnp.zeros(0)))
    np.testing.assert_allclose(found.mean[-1], exactly[-1].mean, rtol=1e-6)
    np.testing.assert_allclose(found.covariance[-1], exactly[-1].covariance, atol=1e-7)
