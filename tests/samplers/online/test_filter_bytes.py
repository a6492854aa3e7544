"""The memory plan against the sizes of the arrays that it plans, and of those that XLA allocates."""

import jax
import numpy as np
import pytest
from experiments import networks

from seqgp.samplers.online.budget import FilterSize, filter_bytes
from seqgp.statespace.low_rank import SiteData, compress, compression_metric, low_rank_start
from seqgp.statespace.modes import space_modes
from seqgp.statespace.two_level import two_level_update

SIZE = FilterSize(num_sites=60, order=2, num_coefficients=2, rank=16, gaps=8, leading=40)


def nbytes(tree):
    return sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def problem():
    net = networks.network(60)
    return net, jax.eval_shape(lambda: space_modes(net.spaces))


@pytest.mark.parametrize("kind, rank, leading", [("eigenbasis", 0, 60), ("low_rank", 16, 60), ("two_level", 16, 40)])
def test_states_and_modes_have_the_planned_sizes(problem, kind, rank, leading):
    net, modes = problem
    state = jax.eval_shape(lambda modes: low_rank_start(modes, net.stationaries, rank, 2, leading), modes)
    found = filter_bytes(kind, SIZE)
    assert found.state == nbytes(state)
    assert found.parameters == nbytes(modes.values)
    assert found.basis == nbytes(modes.vectors)


def test_the_dense_filter_has_the_planned_size():
    dense = networks.DenseKalman(networks.network(60), (1.0, 1.0))
    found = filter_bytes("dense", SIZE)
    assert found.state == nbytes([dense.mean, dense.cov])
    assert found.parameters == nbytes(dense.net.spaces)


@pytest.mark.parametrize("kind, leading", [("low_rank", 60), ("two_level", 40)])
def test_an_update_works_within_the_plan(problem, kind, leading):
    """What XLA allocates for one update beside its arguments: at most what is planned, and at least a fifth of it."""
    net, modes = problem
    state = jax.eval_shape(lambda modes: low_rank_start(modes, net.stationaries, 16, 2, leading), modes)

    def update(state, modes, y, seen, design):
        data = SiteData(y, seen, design)
        state, log = two_level_update(state, modes, net.observe, net.noise, data, np.ones(2), 8)
        return compress(state, compression_metric(state, net.noise, net.stationaries), 16), log

    shapes = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in [((60,), float), ((60,), bool), ((60, 2), float)]]
    allocated = jax.jit(update).lower(state, modes, *shapes).compile().memory_analysis().temp_size_in_bytes
    planned = filter_bytes(kind, SIZE._replace(leading=leading)).work
    assert 0.2 * planned < allocated <= planned
