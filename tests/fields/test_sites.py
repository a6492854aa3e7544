"""Sites and windows, padded to the sizes that a step was compiled for."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.fields.dense import Dense
from seqgp.fields.sites import first_window, padded_size, widen_window
from sequences import KNOWN, snapshots

WHOLE = seqgp.Model(
    kernel=KNOWN.kernel, likelihood=seqgp.likelihoods.Likelihood(lambda f, context: None)
)  # not pointwise: sees all of f


def test_padded_sizes():
    """The last size while the data fit it and fill half of it; otherwise a round one, at most half too large."""
    assert padded_size(True, 7, None) == 7
    assert padded_size(True, 7, 7) == 7
    assert padded_size(True, 6, 10) == 10
    assert padded_size(False, 6, 10) == 6
    for n in range(9, 3000, 7):
        size = padded_size(True, n, 8)
        assert n <= size <= max(n + 8, 3 * n / 2)


def test_few_sizes_are_compiled_however_the_number_of_points_varies():
    """300 steps of 5 to 200 points: two sizes for each doubling, not one for each number that the window had."""
    rng = np.random.default_rng(0)
    found, _, _ = window(1, 12)
    sizes = set()
    for n in rng.integers(5, 200, 300):
        stepped = Dense().step_sites(rng.random((n, 1)), found, 0, pointwise=True)
        sizes.add(stepped.sites.x.shape[0])
        assert stepped.data == stepped.sites.x.shape[0] == stepped.window.x.shape[1]
        f = np.zeros((6, 1, len(stepped.sites.mask)))
        found = stepped.window._replace(x=stepped.sites.x[None], mask=stepped.sites.mask[None], f=f)
    assert sizes <= {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}


def window(tau, size):
    snapshot = snapshots([size])[0]
    sites = Dense().sites(snapshot.x, size)
    f = np.arange(6.0 * size).reshape(6, size)
    return first_window(tau, snapshot.t, sites, f), snapshot, f


def test_a_window_grows_and_shrinks_by_padding_only():
    found, _, _ = window(2, 4)
    wide = widen_window(found, 7)
    assert wide.x.shape == (2, 7, 1)
    assert wide.mask.sum() == found.mask.sum()
    back = widen_window(wide, 4)
    for one, two in zip(back, found):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("model", [KNOWN, WHOLE], ids=["pointwise", "whole"])
@pytest.mark.parametrize("n", [2, 4, 9])
def test_sites_and_window_have_the_same_number(model, n):
    found, _, f = window(2, 4)
    snapshot = snapshots([n], times=[9.0])[0]
    sites, wide, size = Dense().step_sites(snapshot.x, found, f.shape[1], model.likelihood.pointwise)
    assert len(sites.x) == len(sites.mask) == wide.x.shape[1] == wide.f.shape[2]
    assert sites.mask.sum() == n
    np.testing.assert_array_equal(sites.x[sites.mask], snapshot.x)
    seen = sites.observe(jnp.arange(float(len(sites.x))))
    assert len(seen) == size
    np.testing.assert_array_equal(seen[:n], np.arange(n))
    if model is WHOLE:
        assert size == n
