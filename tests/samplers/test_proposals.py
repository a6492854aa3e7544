"""Points of a proposal: their number, their density, and where they come from."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_t, t

from seqgp.samplers.proposals import DEGREES_OF_FREEDOM, Mixture, StudentProposal, log_normal, normal_points

MEAN, ROOT = np.array([0.5, -1.0]), np.array([[0.6, 0.0], [0.3, 0.4]])
PART = StudentProposal(MEAN, ROOT)
OTHER = StudentProposal(MEAN + 2, 2 * ROOT)


def density(part, z):
    return multivariate_t(part.mean, part.root @ part.root.T, df=DEGREES_OF_FREEDOM).logpdf(z)


@pytest.mark.parametrize("count", [16, 33, 100])
def test_a_mixture_has_so_many_points_of_each_part(count):
    mixture = Mixture((PART, OTHER), (0.8, 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # SciPy's, of numbers that are no powers of two
        z = mixture.points(np.random.default_rng(0), count)
    assert z.shape == (count, 2)
    first = int(0.8 * count)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(z, np.concatenate([PART.points(rng, first), OTHER.points(rng, count - first)]))
    expected = np.logaddexp(np.log(0.8) + density(PART, z), np.log(0.2) + density(OTHER, z))
    np.testing.assert_allclose(mixture.log_density(z), expected)


def test_points_are_those_of_their_density():
    """Of 4096 points: the median distance is that of the t distribution, within 2 %, and the middle is the mean."""
    z = PART.points(np.random.default_rng(1), 4096)
    white = np.linalg.solve(ROOT, (z - MEAN).T)
    for row in white:
        np.testing.assert_allclose(np.median(np.abs(row)), t.ppf(0.75, DEGREES_OF_FREEDOM), rtol=0.02)
        assert abs(np.median(row)) < 0.02
    normal = normal_points(np.random.default_rng(3), MEAN, np.array([0.5, 2.0]), 4096)
    np.testing.assert_allclose(normal.std(axis=0), [0.5, 2.0], rtol=0.02)
    np.testing.assert_allclose(
        log_normal(MEAN[None], MEAN, np.array([0.5, 2.0])), [-np.log(2 * np.pi * 0.5 * 2.0)], rtol=1e-12
    )
