"""The diagonal-plus-low-rank filter: exact where nothing is folded, accurate where little is, and never silent."""

import jax.numpy as jnp
import numpy as np
import pytest
from experiments import gap_filters, networks
from scipy.stats import multivariate_normal

from seqgp.base.errors import DataError
from seqgp.statespace.low_rank import SiteData, check_gaps, low_rank_start, low_rank_update
from seqgp.statespace.low_rank_draws import low_rank_to_dense
from seqgp.statespace.modes import commuting_error, mode_covariance, space_modes

SITES, STEPS = 14, 7


def missing(shape, share, seed=3):
    return np.random.default_rng(seed).random(shape) >= share


def exact_case(net, scales=(), seed=1):
    y = networks.simulate(net, STEPS, seed)
    seen = missing(y.shape, 0.3)
    design = np.random.default_rng(8).normal(size=(*y.shape, len(scales)))
    design = design if len(scales) else None
    modes, state, _, increments, folded = gap_filters.low_rank(
        net, y, seen, net.order * SITES, design=design, scales=scales
    )
    dense, expected = gap_filters.dense(net, y, seen, design, scales)
    return modes, state, increments, folded, dense, expected


@pytest.mark.parametrize(
    "time, space, noise",
    [
        ("Matern12", "Matern12", 1.0),
        ("Matern32", "SquaredExponential", 0.05),
        ("Matern52", "Matern32", 0.3),
        ("SquaredExponential", "Matern52", 0.1),
    ],
)
@pytest.mark.parametrize("scales", [(), (2.0, 0.7)])
def test_exact_where_the_rank_is_full(time, space, noise, scales):
    """With as many rows as the state is long, compression loses nothing: the dense filter to 1e-8."""
    net = networks.network(SITES, time=time, space=space, noise=noise)
    modes, state, increments, _, dense, expected = exact_case(net, scales)
    np.testing.assert_allclose(increments, expected, atol=1e-8, rtol=1e-8)
    mean, cov = low_rank_to_dense(state, modes, np.asarray(scales, float))
    np.testing.assert_allclose(mean, dense.mean, atol=1e-8)
    np.testing.assert_allclose(cov, dense.cov, atol=1e-8)


def test_log_evidence_against_the_density_of_all_data_at_once():
    """Of Matern32 × Matern52 from its covariance function, without any state."""
    net = networks.network(SITES, space="Matern52", dt=0.4)
    y = networks.simulate(net, STEPS)
    seen = missing(y.shape, 0.3)
    increments = gap_filters.low_rank(net, y, seen, net.order * SITES)[3]
    times = 0.4 * np.arange(STEPS)
    cov = np.kron(networks.correlation("Matern32", np.abs(times[:, None] - times[None])), net.spaces[0])
    cov = cov[np.ix_(seen.ravel(), seen.ravel())]
    expected = multivariate_normal(cov=cov + net.noise**2 * np.eye(len(cov))).logpdf(y[seen])
    assert float(jnp.sum(increments)) == pytest.approx(expected, abs=1e-8)


def several_terms(independent):
    """Matern32 in time, and Matern12 with the same space kernel, or independent between stations."""
    net = networks.network(SITES)
    second = 0.5 * (np.eye(SITES) if independent else net.spaces[0])
    return net._replace(
        spaces=(*net.spaces, second),
        terms=(*net.terms, networks.time_term("Matern12", 0.1)),
    )


@pytest.mark.parametrize("independent", [False, True])
def test_several_terms_with_common_eigenvectors(independent):
    net = several_terms(independent)
    modes, state, increments, _, dense, expected = exact_case(net)
    assert float(commuting_error(modes, net.spaces)) < 1e-10
    np.testing.assert_allclose(increments, expected, atol=1e-8, rtol=1e-8)
    mean, cov = low_rank_to_dense(state, modes, np.zeros(0))
    np.testing.assert_allclose(mean, dense.mean, atol=1e-8)
    np.testing.assert_allclose(cov, dense.cov, atol=1e-8)


def test_terms_without_common_eigenvectors_are_told():
    net = networks.network(SITES)
    spaces = (*net.spaces, networks.space_covariance(net.x, net.x, "Matern12", 0.1))
    assert float(commuting_error(space_modes(spaces), spaces)) > 0.01


def test_padding_changes_nothing():
    """Sites that are only padding: no space covariance, data seen and zero."""
    net = networks.network(SITES)
    y = networks.simulate(net, STEPS)
    seen = missing(y.shape, 0.3)
    expected = gap_filters.low_rank(net, y, seen, 28)[3]
    more = 5
    wide = net._replace(x=np.pad(net.x, ((0, more), (0, 0))), spaces=(np.pad(net.spaces[0], (0, more)),))
    wide_y, wide_seen = np.pad(y, ((0, 0), (0, more))), np.pad(seen, ((0, 0), (0, more)), constant_values=True)
    found = gap_filters.low_rank(wide, wide_y, wide_seen, 28, padding=more)[3]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_room_for_gaps_that_is_not_used_changes_nothing():
    net = networks.network(SITES)
    y = networks.simulate(net, STEPS)
    seen = missing(y.shape, 0.2)
    narrow, wide = (gap_filters.low_rank(net, y, seen, 28, gaps=gaps)[3] for gaps in (None, 12))
    np.testing.assert_allclose(wide, narrow, atol=1e-10)


def test_more_gaps_than_there_is_room_for_are_refused():
    seen = np.arange(SITES) >= 3
    check_gaps(seen, 3)
    with pytest.raises(DataError, match=r"3 of 14 values are missing.* compiled for 2 at most"):
        check_gaps(seen, 2)
    net = networks.network(SITES)
    modes = space_modes(net.spaces)
    state = low_rank_start(modes, net.stationaries, 4, 0, SITES)
    data = SiteData(np.ones(SITES), seen, np.zeros((SITES, 0)))
    update = [low_rank_update(state, modes, net.observe, net.noise, data, np.zeros(0), gaps)[1] for gaps in (2, 3)]
    assert np.isnan(update[0])
    assert np.isfinite(update[1])


def test_folding_keeps_the_variance_of_each_mode():
    net = networks.network(SITES)
    y = networks.simulate(net, 1)
    seen = missing(y.shape, 0.5)
    _, whole, _, _, none = gap_filters.low_rank(net, y, seen, 28)
    _, folded, _, _, some = gap_filters.low_rank(net, y, seen, 2)

    def variances(state):
        return state.block + jnp.einsum("ram,rbm->abm", state.factor, state.factor)

    np.testing.assert_allclose(variances(folded), variances(whole), atol=1e-12)
    assert float(none[0]) < 1e-12 < 1e-3 < float(some[0])


ACCURATE = [  # time, space, lengthscale, noise, share missing, stations off, rank
    ("Matern32", "Matern32", 0.3, 0.3, 0.1, 0, 40),
    ("Matern12", "Matern12", 0.3, 1.0, 0.1, 0, 40),
    ("Matern52", "Matern52", 0.3, 0.05, 0.1, 0, 40),
    ("Matern32", "SquaredExponential", 0.3, 0.3, 0.3, 0, 40),
    ("Matern32", "Matern32", 0.3, 0.3, 0.01, 6, 40),
]


@pytest.mark.parametrize("time, space, lengthscale, noise, share, off, rank", ACCURATE)
def test_accuracy_with_compression(time, space, lengthscale, noise, share, off, rank):
    """60 stations, 50 steps, some off for 30 of them: log evidence within .03, means .02 sd, variances 2%."""
    net = networks.network(60, time=time, space=space, lengthscale=lengthscale, noise=noise)
    y = networks.simulate(net, 50)
    seen = missing(y.shape, share)
    seen[10:40, :off] = False
    modes, state, _, increments, _ = gap_filters.low_rank(net, y, seen, rank)
    dense, expected = gap_filters.dense(net, y, seen)
    assert np.max(np.abs(np.cumsum(increments - expected))) < 0.03
    mean, variance = gap_filters.latent(state, modes, net.observe)
    expected_mean, expected_variance = dense.latent()
    assert np.max(np.abs(mean - expected_mean) / np.sqrt(expected_variance)) < 0.02
    np.testing.assert_allclose(variance, expected_variance, rtol=0.02)


def test_mode_covariance_is_that_of_the_fields():
    net = several_terms(True)
    modes = space_modes(net.spaces)
    blocks = mode_covariance(net.stationaries, modes)
    found = np.einsum("im,abm,jm->aibj", modes.vectors, blocks, modes.vectors)
    np.testing.assert_allclose(
        found[:2, :, :2], np.einsum("ab,ij->aibj", net.stationaries[0], net.spaces[0]), atol=1e-9
    )
    np.testing.assert_allclose(found[2, :, 2], net.stationaries[1] * net.spaces[1], atol=1e-9)
