"""The paper's set of updates as a whole."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from geweke import BOUND, largest_score, standard_form
from seqgp.fields.operators import Events
from seqgp.mcmc.plain import Plain, PlainTuning, Sweeps, move_mean

TUNING = PlainTuning(np.array([2.0, 1.0, 4.0]))


@pytest.mark.parametrize(
    ("updates", "first"),
    [(Plain(sweeps=(2, 1, 1)), False), (Plain(initial=(1, 1, 1)), True)],
    ids=["step", "initial"],
)
def test_a_sweep_leaves_the_posterior_invariant(updates, first):
    def sweep(key, target, position):
        return updates.sweep(key, target, position, TUNING, first)

    values = standard_form(jax.random.key(0), sweep, replicates=2000, transitions=4)
    assert largest_score(values) < BOUND


def test_what_each_update_cost_is_counted():
    updates = Plain(sweeps=Sweeps(before=3, between=2, after=1, mean=2))
    target = small.target(np.array([0.8, 1.1, -0.2]))
    start = small.position(target, jnp.asarray(small.MEAN), jnp.zeros(3))
    _, info = jax.jit(lambda key: updates.sweep(key, target, start, TUNING, False))(jax.random.key(0))
    counts = {name: int(slices.updates) for name, slices in info.items()}
    assert counts == {"latent": 6, "kernel": 1, "mean": 4, "likelihood": 1}
    assert all(int(slices.evaluations) >= int(slices.updates) for slices in info.values())


def test_what_happened_to_an_old_factorisation_is_counted_once():
    """Mean and noise move without a factorisation: that the last one raised its jitter is no news of theirs."""
    target = small.target(np.array([0.8, 1.1, -0.2]))
    start = small.position(target, jnp.asarray(small.MEAN), jnp.zeros(3))
    raised = Events(jnp.zeros((), int), jnp.ones((), int))
    start = eqx.tree_at(lambda position: position.chart.place.conditional.events, start, raised)
    moved, info = move_mean(jax.random.key(0), target, start)
    assert int(info.evaluations) > 0
    assert int(info.events.jitter_raised) == 0
    assert jax.tree.structure(moved) == jax.tree.structure(start)


@pytest.mark.parametrize("start", ["prior", "warm"])
def test_a_new_window_moves_the_latent_along(start):
    """The coordinates of the last draw are kept, or drawn anew; all that follows from them is computed anew."""
    updates = Plain(start=start)
    y = np.array([0.8, 1.1, -0.2])
    old, new = small.target(y), small.target(y, window=small.WINDOW + 1.0)
    position = small.position(old, jnp.asarray(small.MEAN), jnp.asarray([0.3, -1.0, 0.5]))
    moved = updates.transfer(jax.random.key(0), new, position, TUNING)
    again = small.position(new, moved.z, moved.nu)
    np.testing.assert_allclose(moved.sites, again.sites, rtol=1e-9)
    np.testing.assert_allclose(moved.log_likelihood, again.log_likelihood, rtol=1e-9)
    assert np.array_equal(moved.nu, position.nu) == (start == "warm")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "fancy"}, "Plain: kernel = 'fancy': expected 'whitened' or 'surrogate'"),
        ({"start": "cold"}, "Plain: start = 'cold': expected 'prior' or 'warm'"),
        ({"sweeps": (0, 0, 0)}, "at least one of the latent"),
        ({"sweeps": (-1, 5, 1)}, "numbers of repetitions"),
        ({"sweeps": 5}, "expected .before, between, after."),
        ({"surrogate": 0.0}, "surrogate = 0.0 is not a positive standard deviation"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(seqgp.SamplerError, match=message):
        Plain(**settings)
