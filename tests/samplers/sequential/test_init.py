"""The initial sample is exact.

Fixed seeds; each statistical test compares at most 15 numbers at ``|z| < 4`` (false alarm: 1e-3), with the effective
sample sizes that the info reports.
"""

import jax
import numpy as np
import pytest
from scipy import stats

import seqgp
import small
from sequences import KNOWN, MEAN, NOISE, SCALE, SPACE, sampler

SETTINGS = {"draws": 2000, "chains": 4, "warmup": 200, "thin": 5, "updates": seqgp.Plain(initial=(3, 0, 1))}
SNAPSHOT = seqgp.Snapshot(0.0, small.X, [1.9, 1.4, 0.8])


def covariance(lengthscale, scale):
    return scale**2 * np.exp(-((small.X - small.X.T) ** 2) / (2 * lengthscale**2)) + 1e-8 * scale**2 * np.eye(3)


def test_known_parameters():
    """The conjugate posterior; missing data are predicted."""
    y = np.array([1.4, np.nan, -0.9])
    snapshot = seqgp.Snapshot(0.0, small.X, y)
    state, info = sampler(KNOWN, **SETTINGS).init(jax.random.key(0), snapshot)
    prior, seen = covariance(SPACE, SCALE), ~np.isnan(y)
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + NOISE**2 * np.eye(2), prior[seen]).T
    mean = MEAN + gain @ (y[seen] - MEAN)
    spread = prior - gain @ prior[seen]
    found = np.asarray(state.latent)
    effective = info.min_ess
    scores = np.abs((found.mean(0) - mean) / np.sqrt(np.diag(spread) / effective))
    ratios = np.abs(np.cov(found, rowvar=False) - spread)
    bound = np.sqrt((np.outer(np.diag(spread), np.diag(spread)) + spread**2) / effective)
    assert scores.max() < 4
    assert (ratios / bound).max() < 4
    assert info.missing == 1
    assert effective > 500


def test_where_the_latent_of_a_step_starts_does_not_matter_at_first():
    """Regression: a fresh draw of the prior between the draws of one chain would not leave its posterior as it is."""
    chains = {}
    for start in ("prior", "warm"):
        updates = seqgp.Plain(initial=(1, 0, 1), start=start)
        state, _ = sampler(KNOWN, draws=8, chains=1, warmup=2, thin=1, updates=updates).init(
            jax.random.key(0), SNAPSHOT
        )
        chains[start] = np.asarray(state.latent)
    np.testing.assert_array_equal(chains["prior"], chains["warm"])


TWO = small.model(
    kernel=seqgp.Separable(
        time=seqgp.kernels.SquaredExponential(seqgp.ScaledSigmoid(0.2, 3)),
        space=seqgp.kernels.SquaredExponential(SPACE),
        scale=seqgp.ScaledSigmoid(0.3, 2),
    ),
    likelihood=seqgp.likelihoods.Gaussian(NOISE),
)


@pytest.fixture(scope="module")
def two():
    """Time lengthscale, scale and mean unknown: the posterior of the last two is a sum over a grid."""
    return sampler(TWO, **SETTINGS).init(jax.random.key(1), SNAPSHOT)


def test_parameters_against_quadrature(two):
    state, info = two
    z = np.linspace(-7.5, 7.5, 121)
    log_density = np.empty((121, 121))
    for i, scale in enumerate(0.3 + 1.7 / (1 + np.exp(-z))):
        total = covariance(SPACE, scale) + NOISE**2 * np.eye(3)
        for j, mean in enumerate(-1 + 3 / (1 + np.exp(-z))):
            log_density[i, j] = stats.multivariate_normal(np.full(3, mean), total).logpdf(SNAPSHOT.y)
    log_density -= 0.5 * (z[:, None] ** 2 + z[None] ** 2) / 1.5**2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    for name, marginal, column in (("scale", weights.sum(1), 1), ("mean", weights.sum(0), 2)):
        found, effective = np.asarray(state.z)[:, column], info.ess[name]
        mean = marginal @ z
        variance = marginal @ (z - mean) ** 2
        assert abs(found.mean() - mean) < 4 * np.sqrt(variance / effective)
        fourth = marginal @ (z - mean) ** 4
        assert abs(found.var() - variance) < 4 * np.sqrt((fourth - variance**2) / effective)


def test_one_time_says_nothing_about_the_time_lengthscale(two):
    """Its posterior is its prior (Kolmogorov–Smirnov, false alarm 1e-3), on draws thinned to near independence."""
    state, info = two
    thin = int(np.ceil(2 * state.draws / info.ess["time.lengthscale"]))
    z = np.asarray(state.z)[::thin, 0]
    assert len(z) > 200
    assert stats.kstest(z, stats.norm(0, 1.5).cdf).pvalue > 1e-3
    theta = np.asarray(state.parameters["time.lengthscale"])[::thin]
    np.testing.assert_allclose(theta, 0.2 + 2.8 / (1 + np.exp(-z)), rtol=1e-12)
    # The check has teeth: the mean's posterior is not its prior.
    assert stats.kstest(np.asarray(state.z)[::thin, 2], stats.norm(0, 1.5).cdf).pvalue < 1e-3


def test_all_missing_is_the_prior_and_the_info_says_so():
    nothing = seqgp.Snapshot(0.0, small.X, np.full(3, np.nan))
    state, info = sampler(TWO, **SETTINGS).init(jax.random.key(2), nothing)
    for column, name in enumerate(TWO.names):
        z, effective = np.asarray(state.z)[:, column], info.ess[name]
        assert abs(z.mean()) < 4 * 1.5 / effective**0.5
        assert abs(z.var() / 2.25 - 1) < 4 * (2 / effective) ** 0.5
    assert info.missing == 3
    assert any("all of y is missing" in warning for warning in info.warnings)
