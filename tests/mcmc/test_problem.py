"""The arrays of a step: the window laid before the present."""

import numpy as np

from seqgp.fields.dense import Dense
from seqgp.fields.sites import first_window
from seqgp.mcmc.problem import initial_problem, step_problem
from sequences import KNOWN, snapshots

NOW, NEXT = snapshots([4, 6])
F = np.arange(24.0).reshape(6, 4)


def window(tau):
    return first_window(tau, NOW.t, Dense().sites(NOW.x, 4), F)


def test_the_first_window_knows_one_time():
    found = window(3)
    assert found.times[-1] == NOW.t
    assert (np.diff(found.times) > 0).all()
    assert found.mask.any(axis=1).tolist() == [False, False, True]
    np.testing.assert_array_equal(found.f[:, -1], F)
    assert found.f.shape == (6, 3, 4)


def test_the_initial_problem_has_no_window_and_the_prior_of_z():
    problem, sites = initial_problem(KNOWN, Dense(), NOW)
    assert (len(problem.times), problem.sites, problem.present) == (1, 4, 4)
    np.testing.assert_array_equal(sites.x, NOW.x)
    for found, expected in zip((problem.mean, problem.covariance), KNOWN.prior_of_z()):
        np.testing.assert_array_equal(found, expected)


def test_a_step_lays_the_window_before_the_present():
    stepped = Dense().step_sites(NEXT.x, window(2), 4, True)
    problem = step_problem(KNOWN, Dense(), KNOWN.prior_of_z(), stepped, NEXT)
    assert (len(problem.times), problem.present) == (3, problem.sites)
    np.testing.assert_array_equal(problem.times[-2:], [NOW.t, NEXT.t])
    for block, x in zip(problem.x[-2:], (NOW.x, NEXT.x)):
        np.testing.assert_array_equal(block[: len(x)], x)
    assert problem.mask.sum(axis=1).tolist() == [0, 4, 6]
