"""Moves by gradients: volume and reversibility, and a posterior of thirty parameters in closed form."""

import numpy as np
import pytest
from scipy import stats

from seqgp.samplers.gradient_moves import accepted, leapfrogs, particle_root
from seqgp.samplers.ibis import Evaluated, Particles, ParticleTarget, rejuvenate
from seqgp.samplers.proposals import log_normal, normal_points

D = 30


def test_a_leapfrog_step_comes_back_and_keeps_energy():
    """Of a Gaussian in coordinates where it is isotropic, with the right force, energy errors are small."""

    class Kept:
        """Random numbers that are given."""

        def __init__(self, momentum):
            self.momentum = momentum

        def standard_normal(self, shape):
            return self.momentum

        def uniform(self, low, high, shape):
            return np.zeros(shape)

    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.1 * np.eye(4) + 0.9)
    precision = np.linalg.inv(root @ root.T)
    z, momentum = rng.standard_normal((50, 4)) @ root.T, rng.standard_normal((50, 4))
    force = lambda z: -z @ precision  # noqa: E731
    there = leapfrogs(Kept(momentum), z, force, root, 16)
    potential = lambda z: 0.5 * np.einsum("ij,jk,ik->i", z, precision, z)  # noqa: E731
    assert np.abs(potential(there.z) - potential(z) + there.energy).max() < 0.02
    # The momentum at the end follows from where each coordinate goes: backwards it leads to the start.
    step = 1.5 / 16
    white = lambda z: np.linalg.solve(root, z.T).T  # noqa: E731
    u, p = white(z), momentum - 0.5 * step * white(z)
    for i in range(16):
        u = u + step * p
        p = p - (1.0 if i < 15 else 0.5) * step * u
    np.testing.assert_allclose(white(there.z), u, atol=1e-12)
    back = leapfrogs(Kept(-p), there.z, force, root, 16)
    np.testing.assert_allclose(back.z, z, atol=1e-10)


def problem(wrong=1.0):
    """``y = z + noise`` in thirty correlated dimensions, its posterior and evidence, and a target for rejuvenations."""
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((D, D)) / np.sqrt(D)
    noise = factor @ factor.T + 0.05 * np.eye(D)
    y = rng.multivariate_normal(np.zeros(D), noise + np.eye(D))
    precision = np.linalg.inv(noise)
    covariance = np.linalg.inv(precision + np.eye(D))
    mean = covariance @ precision @ y
    evidence = stats.multivariate_normal(np.zeros(D), noise + np.eye(D)).logpdf(y)
    likelihood = stats.multivariate_normal(np.zeros(D), noise)

    def evaluate(z):
        return Evaluated(z, np.zeros(len(z)), likelihood.logpdf(y - z), 1)

    def gradient(z, power):
        return wrong * power * (y - z) @ precision

    choose = lambda filters, index: filters[index]  # noqa: E731
    either = lambda take, new, old: np.where(take[:, None], new, old)  # noqa: E731
    target = ParticleTarget(evaluate, choose, either, (np.zeros(D), np.ones(D)), gradient=gradient)
    return target, mean, covariance, evidence


@pytest.mark.parametrize("wrong", [1.0, 0.8])
def test_thirty_parameters_in_closed_form(wrong):
    """Means within four errors of an eighth of the particles (false alarm 1e-3), sds within a sixth; also where the
    force is not the gradient. With the gradient the evidence is within one. A mutant whose moves are accepted without
    their energy has means twice as far off, and sds a third too small."""
    target, mean, covariance, evidence = problem(wrong)
    means, variances, evidences = [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = normal_points(rng, *target.prior, 512)
        prior, none = log_normal(z, *target.prior), np.zeros(512)
        first = Particles(z, prior, none, target.evaluate(z).log_increment, prior, 0.0)
        particles, filters, told = rejuvenate(rng, first, z, target)
        assert {one.kind for one in told} == {"gradient moves"}
        np.testing.assert_array_equal(filters, particles.z)
        weights = particles.weights()
        means.append(weights @ particles.z)
        variances.append(weights @ (particles.z - mean) ** 2)
        evidences.append(particles.log_evidence())
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((np.mean(means, axis=0) - mean) / sd).max() < 4 / np.sqrt(4 * 512 / 8)
    assert np.sqrt(np.mean(variances, axis=0) / sd**2) == pytest.approx(np.ones(D), abs=1 / 6)
    if wrong == 1.0:
        assert np.mean(evidences) == pytest.approx(evidence, abs=1.0)


def test_a_target_that_is_not_a_number_refuses():
    np.testing.assert_array_equal(accepted(np.array([np.nan, np.inf, -np.inf, 0.0])), [0, 1, 0, 1])


def test_root_of_few_particles_is_regular():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20, D))
    root = particle_root(z, np.full(20, 0.05), np.full(D, 1e-10))
    assert np.linalg.matrix_rank(root) == D
    np.testing.assert_allclose(np.diag(root @ root.T), z.var(axis=0), rtol=1e-9)
