"""A covariance that is written out becomes diagonal plus low rank: exactly at full rank, accurately below."""

import jax.numpy as jnp
import numpy as np
from experiments import gap_filters, networks

from seqgp.statespace.low_rank_draws import low_rank_to_dense
from seqgp.statespace.modes import space_modes
from seqgp.statespace.takeover import complete_blocks, low_rank_from_dense


def case(num_sites, before, steps, share, **settings):
    """A network of which the last sites join after some steps."""
    net = networks.network(num_sites, **settings)
    y = networks.simulate(net, steps)
    seen = np.random.default_rng(6).random(y.shape) >= share
    seen[:before, -num_sites // 5 :] = False
    return net, y, seen


def complete(net, steps):
    dts = np.array([np.inf, np.inf, 0.0] + [1.0] * (steps - 1))

    def transition(dt):
        return jnp.where(dt > 0, net.transition, np.eye(net.order))

    return complete_blocks(space_modes(net.spaces), net.stationaries, transition, dts, net.observe, net.noise)


def converted(net, y, seen, rank, scales=(), design=None):
    """The dense filter after all data, as a state of low rank."""
    dense, increments = gap_filters.dense(net, y, seen, design, scales)
    modes = space_modes(net.spaces)
    state, folded = low_rank_from_dense(
        jnp.asarray(dense.mean), jnp.asarray(dense.cov), modes, net.stationaries, complete(net, len(y)), net.noise,
        np.asarray(scales, float), rank, len(net.x),
    )  # fmt: skip
    return modes, state, folded, dense, increments


def test_exact_where_the_rank_is_full():
    """Mean and covariance of all fields and of a coefficient, and the log density of what comes next, to 1e-8."""
    net, y, seen = case(15, 4, 6, 0.3)
    scales, design = (0.9,), np.random.default_rng(1).normal(size=(6, 15, 1))
    modes, state, folded, dense, _ = converted(net, y[:4], seen[:4], 30, scales, design[:4])
    mean, cov = low_rank_to_dense(state, modes, np.asarray(scales))
    np.testing.assert_allclose(mean, dense.mean, atol=1e-8)
    np.testing.assert_allclose(cov, dense.cov, atol=1e-8)
    assert abs(float(folded)) < 1e-8
    rest = gap_filters.low_rank(net, y[4:], seen[4:], 30, None, design[4:], scales, begun=state)[3]
    np.testing.assert_allclose(rest, gap_filters.dense(net, y, seen, design, scales)[1][4:], atol=1e-8)


def test_complete_blocks_are_those_of_complete_data():
    net, y, _ = case(10, 4, 4, 0.0)
    state = gap_filters.low_rank(net, y, np.ones(y.shape, bool), 1, gaps=1)[1]
    np.testing.assert_allclose(complete(net, 4), state.block, atol=1e-10)


def test_accuracy_with_compression():
    """Twelve of 60 stations join after 15 of 30 steps; 10% are missing; the rank is a third of the state's length."""
    net, y, seen = case(60, 15, 30, 0.1)
    modes, state, folded, _, first = converted(net, y[:15], seen[:15], 40)
    assert 0 < float(folded) < np.inf
    _, state, _, rest, _ = gap_filters.low_rank(net, y[15:], seen[15:], 40, gaps=20, begun=state)
    dense, expected = gap_filters.dense(net, y, seen)
    assert np.max(np.abs(np.cumsum(np.concatenate([first, rest]) - expected))) < 0.03
    mean, variance = gap_filters.latent(state, modes, net.observe)
    expected_mean, expected_variance = dense.latent()
    assert np.max(np.abs(mean - expected_mean) / np.sqrt(expected_variance)) < 0.02
    np.testing.assert_allclose(variance, expected_variance, rtol=0.02)
