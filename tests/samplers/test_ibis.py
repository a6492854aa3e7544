"""New particles, on a regression whose evidence and posterior are known by quadrature over one parameter."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from seqgp.samplers import ibis
from seqgp.samplers.ibis import Particles
from seqgp.samplers.proposals import log_normal, normal_points

SIZE = 512


class Regression:
    """``y = X b + exp(log_noise) e`` with ``b ~ N(0, I)``: as many coefficients as half the data, so noise is hard."""

    def __init__(self, coefficients: int):
        rng = np.random.default_rng(0)
        self.d, n = coefficients + 1, 3 * coefficients + 3
        self.x = rng.standard_normal((n, coefficients))
        self.y = self.x @ rng.standard_normal(coefficients) + 0.5 * rng.standard_normal(n)
        self.prior = np.r_[-2.0, np.zeros(coefficients)], np.r_[0.7, np.ones(coefficients)]

    def evaluate(self, z):
        apart = self.y - z[:, 1:] @ self.x.T
        density = norm.logpdf(apart, scale=np.exp(z[:, :1])).sum(axis=1)
        return ibis.Evaluated(None, np.zeros(len(z)), density, 1)

    def exact(self):
        """The log evidence, and mean and sd of the log noise."""
        grid = np.linspace(-4.5, 0.5, 400)
        marginal = [
            multivariate_normal.logpdf(self.y, cov=self.x @ self.x.T + np.exp(2 * g) * np.eye(len(self.y)))
            for g in grid
        ]
        logs = np.array(marginal) + norm.logpdf(grid, -2.0, 0.7) + np.log(grid[1] - grid[0])
        weights = np.exp(logs - logsumexp(logs))
        mean = weights @ grid
        return logsumexp(logs), mean, np.sqrt(weights @ (grid - mean) ** 2)

    def rejuvenated(self, seed, tilt=0.0, approximate=False):
        """Particles from the prior, rejuvenated given the data; their weights may be wrong by an exponential."""
        rng = np.random.default_rng(seed)
        z = normal_points(rng, *self.prior, SIZE)
        found, log_prior = self.evaluate(z), log_normal(z, *self.prior)
        before = found.log_evidences + tilt * z[:, 0]
        particles = Particles(z, log_prior, before, found.log_increment, log_prior, 0.0)
        target = ibis.ParticleTarget(
            self.evaluate,
            lambda filters, index: None,
            lambda take, new, old: None,
            self.prior,
            approximate=approximate,
        )
        return ibis.rejuvenate(rng, particles, None, target)[::2]


def errors(problem, seed, **settings):
    """Of the log evidence, and of the mean log noise in posterior sds."""
    evidence, mean, sd = problem.exact()
    particles, rejuvenations = problem.rejuvenated(seed, **settings)
    return particles.log_evidence() - evidence, (particles.weights() @ particles.z[:, 0] - mean) / sd, rejuvenations


@pytest.mark.parametrize("coefficients", [3, 7, 15])
def test_rejuvenated_particles_have_the_posterior_and_the_evidence(coefficients):
    """Importance sampling serves four parameters; eight and sixteen need moves. Three seeds each, once and for all."""
    found = [errors(Regression(coefficients), seed) for seed in range(3)]
    assert ("moves" in {one.kind for *_, rejuvenations in found for one in rejuvenations}) == (coefficients > 3)
    assert max(abs(mean) for _, mean, _ in found) < 0.3
    assert max(abs(evidence) for evidence, *_ in found) < 1.0


def test_a_few_moves_are_not_enough(monkeypatch):
    """A mutant: four moves whatever the dimension. The noise is too large by sds, the evidence too small by nats."""
    monkeypatch.setattr(ibis, "MAX_CORRELATION", 1.0)
    evidence, mean, _ = errors(Regression(15), 0)
    assert mean > 1.0
    assert evidence < -3.0


@pytest.mark.parametrize("rounds", [0, 3])
def test_approximate_weights_serve_for_a_fit_and_are_not_gone_on_from(rounds, monkeypatch):
    """Without an importance round particles are moved, from weights that are evaluated before."""
    monkeypatch.setattr(ibis, "MAX_IMPORTANCE_ROUNDS", rounds)
    evidence, mean, rejuvenations = errors(Regression(2), 0, tilt=2.0, approximate=True)
    assert abs(mean) < 0.3
    assert abs(evidence) < 1.0
    assert rejuvenations[0].kind == ("importance" if rounds else "moves")
    if not rounds:
        evidence, mean, _ = errors(Regression(2), 0, tilt=2.0)
        assert abs(evidence) > 1.0
