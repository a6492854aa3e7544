"""What a run notes of each snapshot before it is used."""

import jax
import numpy as np

import seqgp


def test_a_snapshot_that_cannot_be_forecast_is_named():
    """Floats that leave the box of their knots: the step lays new ones, the forecast before it has only the old."""
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.SquaredExponential(2.0))
    sampler = seqgp.OnlineSampler(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3)), particles=16, draws=20)
    rng = np.random.default_rng(0)
    data = [
        seqgp.Snapshot(t, rng.uniform(low, low + 10.0, (12, 1)), rng.normal(size=12)) for t, low in enumerate([0, 0, 9])
    ]
    first, second, third = seqgp.run(sampler, data, key=jax.random.key(0), progress=False).infos
    assert (first.scores, first.warnings) == ({}, ())
    assert "crps" in second.scores
    assert third.scores == {}
    assert any("was not forecast: Knots: x[" in warning for warning in third.warnings)


def test_an_exposure_that_is_unknown_beside_a_missing_count_changes_nothing():
    """Forecasts, scores and draws are those of any other exposure there, for a filter and for chains."""
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0)), seqgp.likelihoods.Poisson("hours")
    )
    y, x = np.array([2.0, np.nan, 1.0]), np.arange(3.0)[:, None]
    for sampler in (
        seqgp.OnlineSampler(model, particles=16, draws=20, paths=0),
        seqgp.SequentialSampler(model, draws=20, chains=2, warmup=2, thin=1),
    ):
        runs = []
        for unknown in (1.0, np.nan):
            data = [seqgp.Snapshot(t, x, y, {"hours": np.array([1.0, unknown, 2.0])}) for t in (0.0, 1.0)]
            runs.append(seqgp.run(sampler, data, key=jax.random.key(0), progress=False))
        known, unknown = runs
        assert unknown.infos[-1].scores == known.infos[-1].scores != {}
        np.testing.assert_array_equal(unknown.state.latent, known.state.latent)
