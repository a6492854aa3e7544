"""The algorithm's own target in closed form, and the sampler that samples it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.reference import gaussian_posterior, kalman_filter, sequential_target

RATIOS = [(0.5, 0.09, 1.00), (0.95, 0.09, 1.06), (0.95, 1.0, 1.49), (0.999, 0.09, 4.81)]


class ScalarTarget(NamedTuple):
    """Mean and variance at each time, of the algorithm and of the exact filter."""

    mean: np.ndarray  # (T,)
    variance: np.ndarray  # (T,)
    exact_mean: np.ndarray  # (T,)
    exact_variance: np.ndarray  # (T,)

    @property
    def ratio(self) -> np.ndarray:
        """``R_t``: the variance of the algorithm's target against the exact one."""
        return self.variance / self.exact_variance


def scalar_target(a: float, r: float, y: np.ndarray) -> ScalarTarget:
    """One location, ``f_t | f_{t−1} ~ N(a f_{t−1}, 1 − a²)`` of unit variance, ``y_t ~ N(f_t, r)``.

    ``m_t = g a m_{t−1} + (1 − g) y_t`` and ``P_t = g q + (g a)² P_{t−1}`` with ``g = r / (q + r)``.
    """
    values = np.asarray(y, dtype=float)
    q = 1 - a**2
    g = r / (q + r)
    m, p = values[0] / (1 + r), r / (1 + r)
    em, ep = m, p
    found = [(m, p, em, ep)]
    for value in values[1:]:
        m, p = g * a * m + (1 - g) * value, g * q + (g * a) ** 2 * p
        ahead = a**2 * ep + q
        gain = ahead / (ahead + r)
        em, ep = a * em + gain * (value - a * em), (1 - gain) * ahead
        found.append((m, p, em, ep))
    return ScalarTarget(*np.array(found).T)


def scalar_model(a, r):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(-1 / np.log(a)), seqgp.kernels.Matern32(1.0), 1.0)
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(r**0.5), jitter=1e-10)


def scalar_snapshots(a, r, steps, seed=0):
    """Drawn from the model."""
    rng = np.random.default_rng(seed)
    f = [rng.normal()]
    for _ in range(steps - 1):
        f.append(a * f[-1] + (1 - a**2) ** 0.5 * rng.normal())
    y = np.array(f) + r**0.5 * rng.normal(size=steps)
    return y, [seqgp.Snapshot(t=float(i), x=np.zeros((1, 1)), y=y[i : i + 1]) for i in range(steps)]


@pytest.mark.parametrize(("a", "r", "ratio"), RATIOS)
def test_the_variance_ratios_of_the_method(a, r, ratio):
    assert scalar_target(a, r, np.zeros(20)).ratio[-1] == pytest.approx(ratio, abs=0.006)


def test_scalar_and_matrix_recursion_agree_and_so_do_the_exact_filters():
    y, snapshots = scalar_snapshots(0.95, 1.0, 8)
    known, scalar = scalar_model(0.95, 1.0), scalar_target(0.95, 1.0, y)
    matrix = sequential_target(known, snapshots)
    np.testing.assert_allclose([float(m.mean[0]) for m in matrix], scalar.mean, atol=1e-8)
    np.testing.assert_allclose([float(m.covariance[0, 0]) for m in matrix], scalar.variance, atol=1e-8)
    filtered = kalman_filter(known, snapshots)
    np.testing.assert_allclose(filtered.mean[:, 0], scalar.exact_mean, atol=1e-8)
    np.testing.assert_allclose(filtered.covariance[:, 0, 0], scalar.exact_variance, atol=1e-8)


def wandering(steps=4, n=3, seed=1):
    """Inputs that change, a value missing."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(steps, n))
    y[1, 0] = np.nan
    return [seqgp.Snapshot(t=0.4 * i, x=rng.uniform(size=(n, 1)), y=y[i]) for i in range(steps)]


def smooth_model():
    kernel = seqgp.Separable(seqgp.kernels.SquaredExponential(1.0), seqgp.kernels.SquaredExponential(0.5), 1.2)
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.5), mean=0.3, jitter=1e-8)


def test_the_first_target_is_exact_and_the_later_ones_are_not():
    known, snapshots = smooth_model(), wandering()
    parameters = known.parameters(jnp.zeros(0))
    found = sequential_target(known, snapshots, tau=2)
    first, last = (gaussian_posterior(known, snapshots[:t], parameters)[-1] for t in (1, 4))
    np.testing.assert_allclose(found[0].mean, first.mean, atol=1e-8)
    assert np.abs(found[-1].mean - last.mean).max() > 0.01
    assert np.trace(found[-1].covariance) > np.trace(last.covariance)


@pytest.mark.parametrize("tau", [1, 2])
def test_the_sampler_samples_this_target(tau):
    known, snapshots = smooth_model(), wandering()
    draws = 2000
    sampler = seqgp.SequentialSampler(known, draws=draws, chains=2, tau=tau, updates="plain", latent=seqgp.Dense())
    found = sequential_target(known, snapshots, tau=tau)
    state = seqgp.run(sampler, snapshots, key=jax.random.key(0), progress=False).state
    latent, sd = np.asarray(state.latent), np.sqrt(np.diag(found[-1].covariance))
    # At most a third of the draws' worth of autocorrelation: five standard errors, three means, three sds.
    bound = 5 / (draws / 3) ** 0.5
    assert np.abs((latent.mean(0) - found[-1].mean) / sd).max() < bound
    assert np.abs(latent.std(0) / sd - 1).max() < bound


# The algorithm as specified draws f_t from its conditional posterior. Informed updates do so at once; slices from the
# prior need many repetitions where the data say much (the paper's eleven leave the variance a tenth too large here).
EXACT_DRAWS = [(*case, seqgp.Informed()) for case in RATIOS] + [(*RATIOS[1], seqgp.Plain(sweeps=(20, 0, 1)))]


@pytest.mark.parametrize(("a", "r", "ratio", "updates"), EXACT_DRAWS)
def test_the_variance_ratios_come_out_of_the_sampler(a, r, ratio, updates):
    y, snapshots = scalar_snapshots(a, r, 20)
    draws = 2000
    sampler = seqgp.SequentialSampler(scalar_model(a, r), draws=draws, chains=2, updates=updates, latent=seqgp.Dense())
    state = seqgp.run(sampler, snapshots, key=jax.random.key(1), progress=False).state
    exact = scalar_target(a, r, y)
    latent = np.asarray(state.latent)[:, 0]
    # Four standard errors of mean and variance, of independent draws: a false alarm in 800 tests.
    assert latent.var() / exact.exact_variance[-1] == pytest.approx(ratio, rel=4 * (2 / draws) ** 0.5)
    assert abs(latent.mean() - exact.mean[-1]) < 4 * (exact.variance[-1] / draws) ** 0.5
