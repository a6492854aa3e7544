"""Draws sorted by particle: the table keeps its size from step to step, and gives every draw back in its place."""

import numpy as np
import pytest

from seqgp.samplers.ibis import systematic
from seqgp.samplers.online.filters import Filters
from seqgp.samplers.online.predictive import _Slots

PARTICLES = 256
BANK = Filters(tuple((np.zeros((size, 1)), np.zeros((size, 1))) for size in (128, 128)), 0)


@pytest.mark.parametrize(("draws", "fewest"), [(200, 100), (400, 100), (1000, 160)])
def test_one_size_down_to_so_many_effective_particles(draws, fewest):
    rng, effective = np.random.default_rng(0), []
    for spread in (0.0, 0.3, 0.6, 0.8, 0.95):
        weights = np.exp(spread * rng.normal(size=PARTICLES))
        weights /= weights.sum()
        if 1 / np.sum(weights**2) < fewest:
            continue
        effective.append(1 / np.sum(weights**2))
        particle = rng.permutation(systematic(rng, weights, draws))
        slots, values = _Slots(BANK, particle), rng.normal(size=(draws, 3))
        tables = [slots.pack(group, values) for group in (0, 1)]
        assert tables[0].shape == (128, 16, 3)
        np.testing.assert_array_equal(slots.unpack(tables), values)
    assert max(effective) - min(effective) > 50
