"""Surfaces in other libraries."""

import jax
import numpy as np
import pytest

import seqgp
from apps.localvol.market import fitted
from seqgp.apps.localvol import to_quantlib


def test_quantlib_gives_back_the_volatilities():
    ql = pytest.importorskip("QuantLib")
    fit = fitted()
    surface, curve = fit.surface().mean(), fit.surface().curve
    strikes = np.linspace(80, 120, 9)
    made = to_quantlib(surface, curve, fit.last.date, strikes, [0.1, 0.5, 0.9])
    for T in (0.1, 0.5, 0.9):
        expected = surface(T, np.log(strikes[3] / curve.forward(T)[0]))
        assert made.localVol(T, strikes[3]) == pytest.approx(float(expected), rel=1e-9)
    assert made.referenceDate() == ql.Date(3, 1, 2024)
    with pytest.raises(ValueError, match="must increase"):
        to_quantlib(surface, curve, fit.last.date, strikes[::-1])


def test_the_tree_for_arviz_holds_draws_and_replicated_quotes():
    fit = fitted()
    tree = fit.to_datatree()
    assert dict(tree["posterior"].sizes)["chain"] == 2
    latent = tree["posterior"]["latent"].to_numpy().reshape(80, -1)
    np.testing.assert_array_equal(latent, fit.state.latent)
    assert tree["posterior_predictive"]["y"].shape[-1] == fit.last.snapshot.y.size


def test_a_run_on_disk_holds_the_days(tmp_path):
    """Snapshots are trees of arrays, so a store can keep them."""
    fit = fitted()
    sampler = seqgp.SequentialSampler(fit.model.model, draws=80, chains=2, warmup=60, updates="informed", carry="joint")
    snapshots = [day.snapshot for day in fit.days]
    run = seqgp.run(sampler, snapshots, key=jax.random.key(1), store=tmp_path / "run")
    again = seqgp.Store(tmp_path / "run").latest()
    np.testing.assert_array_equal(again.state.latent, run.state.latent)
    assert again.snapshot.context["plan"]["grid"].keys() == snapshots[-1].context["plan"]["grid"].keys()
