"""Elliptical slice sampling against closed forms, and where densities cannot be evaluated.

Statistical tests here have fixed seeds; each compares at most 20 numbers at ``|z| < 4`` (false alarm: 6e-5 each).
"""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from seqgp.fields.operators import Events
from seqgp.mcmc.elliptical import Evaluation, elliptical_slice, random_numbers

CHAINS, UPDATES = 20_000, 40
SHRINKS = 25  # a slice of these targets never needs as many, and numbers that nobody uses are most of the time

MEAN = np.array([1.5, -2.0, 0.5])
COVARIANCE = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]])
ROOT = np.linalg.cholesky(COVARIANCE)
DATA, NOISE = np.array([0.2, 0.3, 1.0]), 0.8


def gaussian(v):
    return jnp.sum(-0.5 * ((DATA - v) / NOISE) ** 2)


def update(log_likelihood, mean=MEAN, root=ROOT):
    """One update of ``v ~ N(mean, root root') · exp(log_likelihood)``."""

    def step(key, v):
        def evaluate(centred):
            return Evaluation(log_likelihood(mean + centred), None, Events.none())

        white, uniform = random_numbers(key, len(v), max_shrinks=SHRINKS)
        ellipse = root @ white
        moved, _, info = elliptical_slice(uniform[0], v - mean, ellipse, evaluate(v - mean), evaluate)
        return mean + moved, info

    return step


def draws(step, seed=0, start=MEAN, chains=CHAINS):
    """The last state of many independent chains."""

    def advance(states, keys):
        return jax.vmap(step)(keys, states)[0], None

    keys = jax.random.split(jax.random.key(seed), (UPDATES, chains))
    states = jnp.broadcast_to(jnp.asarray(start), (chains, len(start)))
    return np.asarray(jax.jit(lambda s, k: jax.lax.scan(advance, s, k)[0])(states, keys))


def conjugate_scores(values):
    """z-scores of mean and covariance against the closed form of Gaussian data."""
    precision = np.linalg.inv(COVARIANCE)
    covariance = np.linalg.inv(precision + np.eye(3) / NOISE**2)
    mean = covariance @ (precision @ MEAN + DATA / NOISE**2)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (values - mean).T).T
    first = white.mean(0) * len(white) ** 0.5
    spread = np.where(np.eye(3, dtype=bool), 2**0.5, 1.0)
    second = (white.T @ white / len(white) - np.eye(3)) / spread * len(white) ** 0.5
    return np.abs(np.append(first, second))


def test_conjugate_posterior_with_a_mean():
    assert conjugate_scores(draws(update(gaussian))).max() < 4


def _prior_twice(v):
    white = jax.scipy.linalg.solve_triangular(ROOT, v - MEAN, lower=True)
    return gaussian(v) - 0.5 * jnp.dot(white, white)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(update(_prior_twice), id="prior counted twice"),
        pytest.param(update(gaussian, mean=np.zeros(3)), id="prior mean ignored"),
        pytest.param(update(lambda v: gaussian(v) * NOISE**2 / NOISE**4), id="noise variance used as sd"),
    ],
)
def test_mutants_of_the_conjugate_posterior_are_caught(mutant):
    assert conjugate_scores(draws(mutant, chains=4000)).max() > 4


def test_same_distribution_as_blackjax():
    """Two-sample Kolmogorov–Smirnov, three coordinates: false alarm 3e-4."""

    def logistic(v):
        return jnp.sum(jax.nn.log_sigmoid(2.0 * v * np.array([1.0, -1.0, 1.0])))

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        theirs = blackjax.elliptical_slice(logistic, mean=jnp.asarray(MEAN), cov=jnp.asarray(COVARIANCE))

        def step(key, v):
            return theirs.step(key, theirs.init(v))[0].position, None

        expected = draws(step, seed=2)
    found = draws(update(logistic), seed=3)
    p = [stats.ks_2samp(a, b).pvalue for a, b in zip(found.T, expected.T)]
    assert min(p) > 1e-4


def half(v):
    """A likelihood that cannot be evaluated on one side."""
    return jnp.where(v[0] > 1.0, jnp.nan, gaussian(v))


def test_nan_is_never_accepted():
    values = draws(update(half), start=np.zeros(3), chains=500)
    assert np.isfinite(values).all()
    assert (values[:, 0] <= 1.0).all()


def test_a_slice_that_accepts_nan_is_caught():
    """Continuing while ``log_density <= level`` treats NaN as above every level."""
    values = draws(update(lambda v: jnp.nan_to_num(half(v), nan=jnp.inf)), start=np.zeros(3), chains=500)
    assert (values[:, 0] > 1.0).any()


@pytest.mark.parametrize("elsewhere", [-np.inf, np.nan])
def test_the_loop_ends_at_the_cap_and_counts_it(elsewhere):
    start = jnp.asarray(MEAN)

    def evaluate(v):
        return Evaluation(jnp.full((), elsewhere), None, Events.none())

    here = Evaluation(jnp.zeros(()), None, Events.none())
    moved, kept, info = elliptical_slice(
        random_numbers(jax.random.key(0), 0)[1][0], start, jnp.asarray(DATA), here, evaluate
    )
    np.testing.assert_array_equal(moved, start)
    assert float(kept.log_density) == 0.0
    assert int(info.capped) == 1
    assert int(info.evaluations) == 101  # one proposal and 100 shrinks
    assert int(info.updates) == 1


def test_from_no_density_to_the_first_value_that_has_one():
    """From −inf every value of finite density is above the level; none that has no density is."""
    values = draws(update(lambda v: jnp.where(v[0] > 0, 0.0, -jnp.inf)), start=np.array([-0.5, 0.0, 0.0]), chains=500)
    assert (values[:, 0] > 0).all()


def test_numbers_of_a_slice_have_their_distributions():
    white, uniform = random_numbers(jax.random.key(1), 20_000, 200)
    assert stats.kstest(white, "norm").pvalue > 1e-4
    assert stats.kstest(np.ravel(uniform), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(white, np.ravel(uniform)[:20_000])[0, 1]) < 4 / 20_000**0.5


def test_kept_evaluation_is_that_of_the_value():
    """What is cached belongs to the value that was accepted, or to the old one at the cap."""

    def evaluate(v):
        return Evaluation(gaussian(v), v**3, Events(jnp.ones((), int), jnp.zeros((), int)))

    start = jnp.asarray(DATA)
    for cap in (0, 100):
        keys = jax.random.split(jax.random.key(cap), 50)
        value, kept, info = jax.vmap(
            lambda key, cap=cap: elliptical_slice(
                random_numbers(key, 0, max_shrinks=cap)[1][0], start, jnp.asarray(MEAN), evaluate(start), evaluate
            )
        )(keys)
        np.testing.assert_allclose(kept.kept, value**3, atol=1e-12)
        np.testing.assert_allclose(kept.log_density, jax.vmap(gaussian)(value), atol=1e-12)
        np.testing.assert_array_equal(info.events.not_positive_definite, info.evaluations)
        assert (np.asarray(info.capped) == 1).any() == (cap == 0)
