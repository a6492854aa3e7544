"""The choice of the rank, on a filter and on errors that are made up."""

import numpy as np
import pytest
from experiments import gap_filters, networks

from seqgp.statespace.rank import RankRun, choose_rank, is_accurate, largest_rank, most_gaps, rank_error


def test_error_is_the_shift_and_spread_of_differences():
    low, high = RankRun(np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.3, 0.2])), RankRun(np.ones(3), np.zeros(3))
    error = rank_error(8, low, high)
    assert error == pytest.approx((8, 4 / 3, np.std([0, 1, 3], ddof=1), 0.3))


def made_up(spread):
    """Errors that fall with the rank."""
    noise = np.array([-1.0, 0.0, 1.0])
    return lambda rank: RankRun(noise * spread * 2.0 ** (-rank / 8), np.full(3, 1 / rank))


def test_the_rank_doubles_until_the_error_is_small():
    """At rank ``r`` the evidences differ from those at ``2r`` by ``2^(−r/8) − 2^(−r/4)``: 0.25, 0.19, 0.06."""
    errors = choose_rank(made_up(1.0), most=1000, tolerance=0.1, first=8)
    assert [each.rank for each in errors] == [8, 16, 32]
    np.testing.assert_allclose([each.spread for each in errors], [0.25, 0.1875, 2.0**-4 - 2.0**-8])
    assert [is_accurate(each, 0.1) for each in errors] == [False, False, True]


def test_a_rank_that_is_never_good_enough_is_told():
    errors = choose_rank(made_up(1e6), most=40, first=8)
    assert [each.rank for each in errors] == [8, 16, 32]
    assert not is_accurate(errors[-1])
    never = choose_rank(lambda rank: RankRun(np.full(3, np.nan), np.zeros(3)), most=10, first=8)
    assert not is_accurate(never[-1])


def test_the_error_against_twice_the_rank_is_about_that_against_the_dense_filter():
    """Three particles (noise, lengthscale) of a network of 60 stations with a tenth missing."""
    y = networks.simulate(networks.network(60), 12)
    seen = np.random.default_rng(4).random(y.shape) >= 0.1
    nets = [
        networks.network(60, noise=noise, lengthscale=each) for noise, each in [(0.3, 0.3), (0.25, 0.35), (0.35, 0.25)]
    ]

    def run(rank):
        found = [gap_filters.low_rank(net, y, seen, rank)[3:] for net in nets]
        return RankRun(*(np.array([float(np.sum(each[part])) for each in found]) for part in (0, 1)))

    exact = np.array([gap_filters.dense(net, y, seen)[1].sum() for net in nets])
    low, high = run(8), run(16)
    estimated, true = rank_error(8, low, high), rank_error(8, low, RankRun(exact, np.zeros(3)))
    assert estimated.spread == pytest.approx(true.spread, rel=0.5)
    assert estimated.shift == pytest.approx(true.shift, rel=0.5)
    assert high.folded.max() < low.folded.max()


def test_where_the_dense_filter_costs_less():
    assert largest_rank(200, 2, 20) > 96
    assert largest_rank(10, 6, 20) == 0
    assert [most_gaps(n) for n in (60, 399, 400, 5000)] == [0.25, 0.25, 0.5, 0.5]
