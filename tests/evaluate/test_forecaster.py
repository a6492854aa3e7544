"""What a run notes of each snapshot before it is used."""

import jax
import numpy as np

import seqgp


def test_a_snapshot_that_cannot_be_forecast_is_named():
    """Floats that leave the box of their knots: the step lays new ones, the forecast before it has only the old."""
    kernel = seqgp.Separable(seqgp.Matern12(1.0), seqgp.SquaredExponential(2.0))
    sampler = seqgp.OnlineSampler(seqgp.Model(kernel, seqgp.Gaussian(0.3)), particles=16, draws=20)
    rng = np.random.default_rng(0)
    data = [
        seqgp.Snapshot(t, rng.uniform(low, low + 10.0, (12, 1)), rng.normal(size=12)) for t, low in enumerate([0, 0, 9])
    ]
    first, second, third = seqgp.run(sampler, data, key=jax.random.key(0), progress=False).infos
    assert (first.scores, first.warnings) == ({}, ())
    assert "crps" in second.scores
    assert third.scores == {}
    assert any("was not forecast: Knots: x[" in warning for warning in third.warnings)
