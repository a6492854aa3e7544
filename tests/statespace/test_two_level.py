"""Two levels of modes: the one-level filter where all lead, close to the dense one where the others matter little."""

import numpy as np
import pytest
from experiments import gap_filters, networks

from seqgp.statespace.modes import space_modes
from seqgp.statespace.two_level import choose_leading_modes

STEPS = 20


def case(num_sites, **settings):
    net = networks.network(num_sites, **settings)
    y = networks.simulate(net, STEPS)
    return net, y, np.random.default_rng(4).random(y.shape) >= 0.1


def test_all_modes_leading_is_the_one_level_filter():
    net, y, seen = case(16)
    one, two = (gap_filters.low_rank(net, y, seen, 8, leading=leading) for leading in (None, 16))
    np.testing.assert_allclose(two[3], one[3], atol=1e-10)
    np.testing.assert_allclose(two[1].block, one[1].block, atol=1e-10)


def test_one_update_is_exact():
    """From a state without gaps behind it nothing is left out before the second update."""
    net, y, seen = case(24)
    increments = gap_filters.low_rank(net, y[:1], seen[:1], 48, leading=6)
    dense, expected = gap_filters.dense(net, y[:1], seen[:1])
    np.testing.assert_allclose(increments[3], expected, atol=1e-9)
    modes, state = increments[:2]
    np.testing.assert_allclose(net.observe @ state.mean @ modes.vectors.T, dense.latent()[0], atol=1e-9)
    own = np.asarray(state.block + np.einsum("ram,rbm->abm", *[np.pad(state.factor, ((0, 0), (0, 0), (0, 18)))] * 2))
    fields = dense.cov.reshape(2, 24, 2, 24)
    expected = np.einsum("im,aibj,jm->abm", modes.vectors, fields, modes.vectors)
    np.testing.assert_allclose(own, expected, atol=1e-9)


@pytest.mark.parametrize("space, noise", [("Matern32", 0.3), ("SquaredExponential", 0.1)])
def test_accuracy(space, noise):
    """100 stations, 10% missing: the number of leading modes that the kernel asks for is enough."""
    net, y, seen = case(100, space=space, noise=noise)
    leading = choose_leading_modes(space_modes(net.spaces).values, noise)
    modes, state, _, increments, _ = gap_filters.low_rank(net, y, seen, 40, leading=leading.num_modes)
    dense, expected = gap_filters.dense(net, y, seen)
    assert np.max(np.abs(np.cumsum(increments - expected))) < 0.03
    mean, variance = gap_filters.latent(state, modes, net.observe)
    expected_mean, expected_variance = dense.latent()
    assert np.max(np.abs(mean - expected_mean) / np.sqrt(expected_variance)) < 0.02
    np.testing.assert_allclose(variance, expected_variance, rtol=0.02)


def test_leading_modes_follow_the_kernel():
    smooth, rough = (space_modes(networks.network(200, space=kernel).spaces).values[0] for kernel in KERNELS)
    few, many = choose_leading_modes(smooth, 0.3), choose_leading_modes(rough, 0.3)
    assert few.num_modes < many.num_modes <= 200
    assert few.num_modes % 32 == 0
    assert max(few.left_out, many.left_out) <= 2e-4
    gain = np.asarray(smooth / (smooth + 0.09)) ** 2
    assert few.left_out == pytest.approx(gain[few.num_modes :].sum() / gain.sum())
    both = choose_leading_modes(np.stack([smooth, rough]), np.array([0.3, 0.3]))
    assert both.num_modes == many.num_modes
    assert choose_leading_modes(np.ones(10), 1.0, tolerance=0.0) == (10, 0.0)


KERNELS = ["SquaredExponential", "Matern12"]
