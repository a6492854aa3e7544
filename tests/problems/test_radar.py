"""The storm experiment, on a small simulated storm that is left out for one time."""

import numpy as np
import pandas as pd
from experiments import radar

from seqgp.statespace.advection import advected_modes, matern_density, mode_basis, wave_vectors
from seqgp.statespace.mode_filter import advance_rows


def storm_table(velocity, steps=6):
    rng = np.random.default_rng(0)
    s1, s2 = (part.ravel() for part in np.meshgrid(np.arange(0, 60, 6.0), np.arange(0, 60, 6.0), indexing="ij"))
    box = np.array([100.0, 100.0])
    wave = wave_vectors(box, 22.0)
    modes = advected_modes(wave, box, 64 * matern_density(wave, 1.5, 10.0), np.array(velocity), 1.0, 0.05)
    basis, sd = np.asarray(mode_basis(wave, np.stack([s1, s2], axis=1))), np.sqrt(np.tile(modes.variance, 2))
    noise = np.sqrt(-np.expm1(-2 * np.tile(np.asarray(modes.rate), 2)))
    state, frames = sd * rng.normal(size=len(sd)), []
    for step in range(steps):
        dbz = 2.0 + basis @ state + rng.normal(size=len(s1))
        frames.append(pd.DataFrame({"step": step, "s1": s1, "s2": s2, "dbz": dbz}))
        state = np.asarray(advance_rows(modes, 1.0, state[:, None]))[:, 0] + noise * sd * rng.normal(size=len(sd))
    return pd.concat(frames)


def test_velocity_is_found_and_the_gap_filled(tmp_path):
    """Velocities within 4 standard deviations and 0.8 km per step; a quarter of the variance is left at most."""
    velocity = (4.0, -2.0)
    storm_table(velocity).to_csv(tmp_path / "radar.csv", index=False)
    storm = radar.read(tmp_path)
    fitted = radar.fit(storm, left_out=(3,), shortest=24.0, most=40)
    for i, truth in enumerate(velocity):
        found, sd = fitted.parameters[f"velocity[{i}]"], fitted.sd[f"velocity[{i}]"]
        assert abs(found - truth) < min(4 * sd, 0.8)
    scores = radar.score(fitted, storm.y[[3]])
    assert scores.mse < 0.25 * storm.y[3].var() + 2.0
    radar.draw_figure(storm, fitted, tmp_path / "radar.png", left_out=(3,))
    assert (tmp_path / "radar.png").stat().st_size > 10_000
