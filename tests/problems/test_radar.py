"""The storm experiment, on a small simulated storm that is left out for one time."""

import jax
import numpy as np
import pandas as pd
from experiments import radar

import seqgp
from seqgp import kernels, likelihoods

VELOCITY = (24.0, -12.0)  # km/h


def storm_table(steps=6):
    line = np.arange(0, 60, 7.5)
    x = np.stack([part.ravel() for part in np.meshgrid(line, line, indexing="ij")], axis=1)
    field = seqgp.Separable(kernels.Matern12(lengthscale=3.0), kernels.Matern32(lengthscale=15.0), 8.0)
    model = seqgp.Model(seqgp.Advected(field, VELOCITY), likelihoods.Gaussian(noise=1.0), mean=2.0)
    design = [seqgp.Snapshot(k / 6, x, np.zeros(len(x))) for k in range(steps)]
    data = seqgp.simulate(jax.random.key(0), model, design).snapshots
    return pd.concat(
        pd.DataFrame({"step": k, "s1": x[:, 0], "s2": x[:, 1], "dbz": one.y}) for k, one in enumerate(data)
    )


def test_velocity_is_found_and_the_gap_filled(tmp_path):
    """The 99% interval has the velocity, and is short; a quarter of the variance is left at most."""
    storm_table().to_csv(tmp_path / "radar.csv", index=False)
    storm = radar.read(tmp_path)
    fitted = radar.fit(storm, left_out=(3,), shortest=30.0, particles=32)
    low, high = np.quantile(fitted.parameters["velocity"], [0.005, 0.995], axis=0)
    assert (low < VELOCITY).all()
    assert (high > VELOCITY).all()
    assert (high - low < 25).all()
    assert " km/h, 95% " in str(fitted.motion)
    scores = radar.score(fitted, storm.y[[3]])
    assert scores.mse < 0.25 * storm.y[3].var() + 2.0
    radar.draw_figure(storm, fitted, tmp_path / "radar.png", left_out=(3,))
    assert (tmp_path / "radar.png").stat().st_size > 10_000
