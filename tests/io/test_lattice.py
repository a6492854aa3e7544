"""The posterior on a grid is what ``predict`` draws there."""

import jax
import numpy as np

import seqgp
from runs import key, model, sampler, snapshots
from seqgp.io.lattice import surface_of


def test_it_is_the_posterior_at_these_points():
    """Mean and sd of 100 draws on the grid against 400 at the same points: six standard errors."""
    state = seqgp.run(sampler(draws=400), snapshots(2), key()).state
    surface = surface_of(model(), state, [(0.0, 1.0), (0.2, 0.8)], 5)
    a, b = np.meshgrid(*surface.axes, indexing="xy")
    exact = np.asarray(seqgp.predict(jax.random.key(1), model(), state, np.stack([a, b], -1).reshape(-1, 2)).f)
    mean, sd = exact.mean(axis=0).reshape(5, 5), exact.std(axis=0).reshape(5, 5)
    assert surface.mean.shape == (5, 5)
    assert np.all(np.abs(surface.mean - mean) < 6 * sd / 10)
    assert np.all(np.abs(np.log(surface.sd / sd)) < 0.5)
