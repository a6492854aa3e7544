"""Updates of a Gaussian ``f`` by data that are not Gaussian: against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import seqgp
from seqgp.statespace.observation import Observation, SiteOperator
from seqgp.statespace.update import approximate_update

COUNTS = np.array([0.0, 2.0])
LABELS = np.array([0.0, 1.0])
CASES = {"counts": (seqgp.likelihoods.Poisson(), COUNTS, -0.7), "binary": (seqgp.likelihoods.Bernoulli(), LABELS, 0.3)}


def observation(y):
    none, n = np.zeros(()), len(y)
    return Observation(none, SiteOperator(index=np.arange(n)), jnp.asarray(y), jnp.ones(n, bool), jnp.zeros((n, 0)),
                       jnp.ones((n, 1)), none, none, None)  # fmt: skip


def by_quadrature(likelihood, y, mean, V):
    """Log evidence, mean and covariance of two values, on a grid."""
    line = np.linspace(-9, 9, 601)
    f = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    away = f - mean
    inverse = np.linalg.inv(V)
    log_prior = -0.5 * np.einsum("...i,ij,...j->...", away, inverse, away) - 0.5 * np.log(np.linalg.det(2 * np.pi * V))
    data = sum(np.asarray(likelihood.distribution(jnp.asarray(f[..., i]), None, {}).log_prob(y[i])) for i in range(2))
    mass = np.exp(log_prior + data) * (line[1] - line[0]) ** 2
    total = mass.sum()
    centre = np.einsum("ab,abi->i", mass, f) / total
    return np.log(total), centre, np.einsum("ab,abi,abj->ij", mass, f - centre, f - centre) / total


def updated(likelihood, values, y, m, V, *propagated):
    """The update of ``f`` with these moments, in one program."""
    whole = jax.jit(lambda *prior: approximate_update(likelihood, values, observation(y), *prior, *propagated))
    return whole(m, V)


def moments(update, m, V):
    half = np.linalg.solve(np.asarray(update.root), np.asarray(update.scale)[:, None] * V)
    more = np.zeros((len(m), 1)) if update.growth is None else V @ np.asarray(update.growth)
    growth = more @ more.T
    return m + V @ np.asarray(update.slope), V - half.T @ half + growth


@pytest.mark.parametrize("case", CASES)
def test_expectation_propagation_is_close_to_quadrature_where_laplace_is_not(case):
    likelihood, y, centre = CASES[case]
    m, V = np.full(2, centre), np.array([[1.5, 0.9], [0.9, 1.5]])
    truth, mean, covariance = by_quadrature(likelihood, y, m, V)
    errors = {}
    for propagated in (False, True):
        update = updated(likelihood, {}, y, m, V, propagated)
        found, found_covariance = moments(update, m, V)
        errors[propagated] = (
            abs(float(update.log_evidence) - truth),
            np.abs(found - mean).max(),
            np.abs(found_covariance - covariance).max(),
        )
    assert max(errors[True]) < 0.02
    assert errors[True][0] < 0.003
    assert errors[True][1] < 0.3 * errors[False][1]  # the mode is not the mean


def test_gaussian_data_are_absorbed_exactly_by_any_update():
    """Student's t with many degrees of freedom is Gaussian noise."""
    likelihood, y = seqgp.likelihoods.StudentT(noise=0.5, df=1e8), np.array([0.4, -1.2])
    m, V = np.zeros(2), np.array([[1.0, 0.6], [0.6, 1.0]])
    values = {"noise": jnp.asarray(0.5), "df": jnp.asarray(1e8)}
    update = updated(likelihood, values, y, m, V)
    gain = V @ np.linalg.inv(V + 0.25 * np.eye(2))
    mean, covariance = moments(update, m, V)
    assert mean == pytest.approx(gain @ y, abs=1e-5)
    assert covariance == pytest.approx(V - gain @ V, abs=1e-5)
    white = np.linalg.solve(np.linalg.cholesky(V + 0.25 * np.eye(2)), y)
    truth = norm.logpdf(white).sum() - 0.5 * np.log(np.linalg.det(V + 0.25 * np.eye(2)))
    assert float(update.log_evidence) == pytest.approx(truth, abs=1e-5)


ALONE = {
    "outlier": (seqgp.likelihoods.StudentT(0.1, df=3.0), 6.0),
    "half an outlier": (seqgp.likelihoods.StudentT(0.3, df=3.0), 2.5),
    "below a limit": (seqgp.likelihoods.Censored(0.1, limit=-0.5), -0.5),
    "above a limit": (seqgp.likelihoods.Censored(0.1, limit=-0.5), 1.5),
    "far below a limit": (seqgp.likelihoods.Censored(0.1, limit=-20.0), -20.0),
    "far from a limit": (seqgp.likelihoods.Censored(0.1, limit=-30.0), -25.0),
    "one's own": (seqgp.likelihoods.Likelihood(lambda f, context: dist.Cauchy(f, 0.1), pointwise=True), 3.0),
    "counts": (seqgp.likelihoods.Poisson(), 3.0),
}


@pytest.mark.parametrize("name, centre", [*((name, 0.0) for name in ALONE), ("outlier", 40.0), ("one's own", 40.0)])
def test_one_datum_alone_is_taken_in_with_its_moments(name, centre):
    """Those of a fine grid, wherever zero is, also where it makes ``f``` less certain."""
    likelihood, y = ALONE[name]
    values = {key: jnp.asarray(slot) for key, slot in likelihood.priors.items()}
    f = centre + np.linspace(-40, 40, 1_600_001)
    prior = norm.logpdf(f, centre, 1.3) + np.log(f[1] - f[0])
    logs = prior + np.asarray(likelihood.distribution(jnp.asarray(f), None, values).log_prob(centre + y))
    share = np.exp(logs - logsumexp(logs))
    mean, variance = share @ f, share @ (f - share @ f) ** 2
    m, V = np.array([centre]), np.array([[1.69]])
    update = updated(likelihood, values, np.array([centre + y]), m, V)
    found, found_variance = moments(update, m, V)
    assert float(update.log_evidence) == pytest.approx(logsumexp(logs), abs=2e-3)
    assert found[0] == pytest.approx(mean, abs=5e-3)
    assert found_variance[0, 0] == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize("away", [0.0, 3.0, 30.0])
def test_gaussian_data_by_a_function_of_ones_own_are_absorbed_exactly_also_from_afar(away):
    """Two stations that are nearly one, and readings many standard deviations from what was predicted."""
    likelihood = seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(f, 0.05), pointwise=True)
    m, V = np.zeros(2), 0.01 * np.array([[1.0, 0.99], [0.99, 1.0]])
    y = 0.1 * away + np.array([0.05, -0.02])
    update = updated(likelihood, {}, y, m, V)
    whole = V + 0.0025 * np.eye(2)
    gain = V @ np.linalg.inv(whole)
    mean, covariance = moments(update, m, V)
    assert mean == pytest.approx(gain @ y, abs=1e-4)
    np.testing.assert_allclose(covariance, V - gain @ V, rtol=0.02, atol=1e-6)
    truth = norm.logpdf(np.linalg.solve(np.linalg.cholesky(whole), y)).sum() - 0.5 * np.log(np.linalg.det(whole))
    assert float(update.log_evidence) == pytest.approx(truth, abs=2e-3)
