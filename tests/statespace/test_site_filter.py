"""A prediction times Gaussian sites, against dense algebra in extended precision: also where sites are very precise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.oracles.dense import WIDE, cholesky, solve_lower

from seqgp.statespace.gauss_markov import ObservationOperator
from seqgp.statespace.site_filter import GaussianSites, update_with_sites

X = np.array([0.0, 0.3, 1.1, 2.0])
SCALE = 3.0
COVARIANCE = SCALE**2 * np.exp(-np.abs(X[:, None] - X))
OFFSET = np.array([0.5, 0.5, 0.5, 0.5])


def in_extended_precision(tau, nu):
    """Mean and variance of ``f``, and ``log ∫ N(f; predicted) Π site df``; sites without precision move the mean."""
    covariance, flat = COVARIANCE.astype(WIDE), tau == 0
    tau, pull = tau.astype(WIDE), np.where(flat, nu, 0.0).astype(WIDE)
    mean = OFFSET + covariance @ pull
    log_normaliser = OFFSET @ pull + pull @ covariance @ pull / 2
    at = np.flatnonzero(~flat)
    data = nu[at] / tau[at]
    root = cholesky(covariance[np.ix_(at, at)] + np.diag(1 / tau[at]))
    white, half = solve_lower(root, (data - mean[at])[:, None])[:, 0], solve_lower(root, covariance[at])
    log_normaliser += -white @ white / 2 - np.log(np.diag(root)).sum() + (nu[at] * data - np.log(tau[at])).sum() / 2
    return mean + half.T @ white, np.diag(covariance) - (half**2).sum(0), log_normaliser


def updated(tau, nu):
    n = len(X)
    operator = ObservationOperator(
        h=np.ones(1), index=np.arange(n), weights=None, design=np.zeros((n, 0)), offset=OFFSET, seen=np.ones(n, bool)
    )
    run = jax.jit(update_with_sites)
    return run(jnp.zeros(n), jnp.asarray(COVARIANCE), operator, GaussianSites(jnp.asarray(tau), jnp.asarray(nu)))


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 1e-5])
def test_sites_of_any_precision_and_of_none(noise):
    """The mean within a hundredth of its sd; the log normaliser to the rounding of ``nu² / tau``."""
    y = np.array([6.2, -5.9, 4.2, 0.0])
    tau = np.append(np.full(3, noise**-2), 0.0)
    nu = np.append(y[:3] * tau[:3], -0.7)
    mean, variance, log_normaliser = in_extended_precision(tau, nu)
    found = updated(tau, nu)
    off = np.abs(np.asarray(found.f_mean) - mean.astype(float))
    assert (off < 0.01 * np.sqrt(variance.astype(float))).all()
    np.testing.assert_allclose(np.asarray(found.f_variance), variance.astype(float), rtol=1e-3)
    assert float(found.log_normaliser) == pytest.approx(float(log_normaliser), abs=1e-8 + 1e-14 * float(nu @ y))


def test_states_move_as_the_mean_does():
    tau, nu = np.full(4, 1e10), 1e10 * np.array([6.2, -5.9, 4.2, 0.0])
    found = updated(tau, nu)
    pull = np.stack([nu - tau * OFFSET, np.zeros(4)])
    moved = np.asarray(found.slopes(jnp.asarray(tau), jnp.asarray(pull)) @ found.cross.T)
    np.testing.assert_allclose(moved[0], np.asarray(found.mean), atol=1e-12)
    np.testing.assert_allclose(moved[1], 0.0)
