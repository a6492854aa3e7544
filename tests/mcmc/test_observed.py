"""A snapshot as arrays: padded with missing data; its likelihood on the span of a few vectors, by inner products."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.fields.dense import Dense
from seqgp.fields.sites import Observe
from seqgp.mcmc.observed import observed_from
from sequences import KNOWN, snapshots

RNG = np.random.default_rng(0)
MIDDLE, COLUMNS = RNG.normal(size=6), RNG.normal(size=(6, 3))
PARAMETERS = {"mean": jnp.asarray(0.3), "noise": jnp.asarray(0.7)}
POISSON = seqgp.Model(KNOWN.kernel, seqgp.likelihoods.Poisson(), mean=0.0)


def snapshot(n, missing=(), counts=False):
    found = snapshots([n])[0]
    y = np.round(np.abs(found.y)) if counts else found.y.copy()
    y[list(missing)] = np.nan
    return seqgp.Snapshot(found.t, found.x, y)


CASES = {
    "at the sites": (KNOWN, snapshot(6), Observe()),
    "missing data": (KNOWN, snapshot(6, [1, 4]), Observe()),
    "some sites": (KNOWN, snapshot(4), Observe(index=np.array([5, 0, 2, 3]))),
    "interpolated": (KNOWN, snapshot(9, [2]), Observe(weights=RNG.normal(size=(9, 6)))),
    "counts": (POISSON, snapshot(6, [3], counts=True), Observe()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_on_a_span_is_the_likelihood(name):
    model, data, observe = CASES[name]
    observed = observed_from(model, data, observe, len(data.x))
    on_plane = observed.on_planes(model.likelihood, MIDDLE, COLUMNS, PARAMETERS)
    for u, v in (np.eye(3)[:2], RNG.normal(size=(2, 3))):
        along = on_plane(jnp.asarray(u), jnp.asarray(v))
        for c, s in ((1.0, 0.0), (0.0, 1.0), (-0.6, 0.8)):
            expected = observed.log_likelihood(model.likelihood, MIDDLE + COLUMNS @ (c * u + s * v), PARAMETERS)
            np.testing.assert_allclose(along(c, s), expected, rtol=1e-12)


def test_what_is_padded_is_missing():
    snapshot = seqgp.Snapshot(0.0, np.zeros((3, 1)), [1.0, np.nan, 3.0], {"rows": np.arange(3.0), "one": 2.0})
    sites = Dense().sites(snapshot.x, 5)
    observed = observed_from(KNOWN, snapshot, sites.observe, 5)
    assert observed.missing.tolist() == [False, True, False, True, True]
    assert np.isfinite(observed.y).all()
    assert observed.context["rows"].shape == (5,)
    assert observed.context["one"].shape == ()
