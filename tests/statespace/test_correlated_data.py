"""Three correlated data that are not Gaussian, in one snapshot: against quadrature in three dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments.one_datum import binomial, poisson
from scipy import stats
from scipy.special import log_expit

from seqgp import likelihoods
from seqgp.statespace.observation import Observation, SiteOperator
from seqgp.statespace.update import approximate_update

CORRELATION = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.8], [0.5, 0.8, 1.0]])
CASES = {
    "Poisson": (likelihoods.Poisson(), poisson(1.0), [0.0, 3.0, 9.0], 1.0),
    "large counts": (likelihoods.Poisson(), poisson(1.0), [400.0, 900.0, 700.0], 3.0),
    "labels": (likelihoods.Bernoulli(), lambda y, f: log_expit(f if y else -f), [1.0, 0.0, 1.0], 2.0),
    "5 of 1000": (likelihoods.Binomial(1000), binomial(1000), [5.0, 3.0, 8.0], 3.0),
    "an outlier": (likelihoods.StudentT(0.3, 4.0), lambda y, f: stats.t.logpdf(y, 4, f, 0.3), [0.2, 5.0, -0.1], 1.0),
}


def by_quadrature(log_density, y, spread):
    """Mean, sds and log evidence on a grid that is moved to where the posterior is."""
    inverse, low, high = np.linalg.inv(spread), -9 * np.sqrt(np.diag(spread)), 9 * np.sqrt(np.diag(spread))
    for _ in range(6):
        lines = [np.linspace(a, b, 81) for a, b in zip(low, high)]
        f = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
        logs = -0.5 * np.einsum("...i,ij,...j->...", f, inverse, f) - 0.5 * np.log(np.linalg.det(2 * np.pi * spread))
        for i, line in enumerate(lines):
            logs = logs + log_density(y[i], line).reshape([-1 if i == j else 1 for j in range(3)])
        mass = np.exp(logs - logs.max())
        total = mass.sum()
        sides = [mass.sum(axis=tuple(j for j in range(3) if j != i)) / total for i in range(3)]
        mean = np.array([side @ line for side, line in zip(sides, lines)])
        sd = np.sqrt([side @ (line - m) ** 2 for side, line, m in zip(sides, lines, mean)])
        cell = np.prod([line[1] - line[0] for line in lines])
        step = np.array([line[1] - line[0] for line in lines])
        low, high = mean - 9 * np.maximum(sd, step), mean + 9 * np.maximum(sd, step)
    return mean, sd, logs.max() + np.log(total * cell)


@pytest.mark.parametrize("name", CASES)
def test_the_update_is_near_the_exact_posterior(name):
    likelihood, log_density, y, sd = CASES[name]
    values = {key: jnp.asarray(slot) for key, slot in likelihood.priors.items()}
    none, spread = jnp.zeros(()), sd**2 * CORRELATION
    data = Observation(none, SiteOperator(index=np.arange(3)), jnp.asarray(y), jnp.ones(3, bool), jnp.zeros((3, 0)),
                       jnp.ones((3, 1)), none, none, None)  # fmt: skip
    update = jax.jit(lambda spread: approximate_update(likelihood, values, data, jnp.zeros(3), spread))(spread)
    assert not np.any(update.fault)
    half = np.linalg.solve(np.asarray(update.root), np.asarray(update.scale)[:, None] * spread)
    more = 0.0 if update.growth is None else np.sum((spread @ np.asarray(update.growth)) ** 2, axis=1)
    mean, exact_sd, log_evidence = by_quadrature(log_density, y, spread)
    np.testing.assert_array_less(np.abs(spread @ np.asarray(update.slope) - mean), 0.1 * exact_sd)
    found = np.sqrt(np.diag(spread) - np.sum(half**2, axis=0) + more)
    np.testing.assert_allclose(found, exact_sd, rtol=0.1)
    assert float(update.log_evidence) == pytest.approx(log_evidence, abs=0.05)
