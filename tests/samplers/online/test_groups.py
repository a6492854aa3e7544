"""Particles are run in groups, one a core: draws are the same, bit for bit, on any number of cores."""

import numpy as np
import pytest

import seqgp
from runs import same
from seqgp.samplers.online import filters as filters
from streams import model, sampled, snapshots

PARTICLES = 40  # not a multiple of a bundle


def drawn(cores, monkeypatch):
    monkeypatch.setattr(filters, "cores", lambda: cores)
    return sampled(seqgp.OnlineSampler(model(), particles=PARTICLES, draws=20), snapshots(missing=0.2)[:4])[0]


@pytest.mark.parametrize("cores", [2, 3])
def test_draws_do_not_depend_on_the_number_of_cores(cores, monkeypatch):
    alone, shared = drawn(1, monkeypatch), drawn(cores, monkeypatch)
    assert len(shared.live.filters.groups) == cores
    assert same(alone.packed(), shared.packed())


def test_groups_cover_all_particles(monkeypatch):
    for cores in range(1, 9):
        monkeypatch.setattr(filters, "cores", lambda cores=cores: cores)
        for count in (1, 16, 40, 100, 256):
            slices = filters.particle_slices(count)
            assert np.concatenate([np.arange(count)[part] for part in slices]).tolist() == list(range(count))
            assert all(part.stop > part.start for part in slices)
