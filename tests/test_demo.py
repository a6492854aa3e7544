"""The demo: what it calls exact has the right spread, and its tables and figure are made of it."""

import matplotlib
import numpy as np
from experiments import demo
from experiments.simulate import regression_data


def test_the_posterior_of_one_who_knows_the_parameters_is_calibrated():
    """Squared errors over variances average 1: each data set's mean has an sd of at most √2, so 0.33 is 4 sd of 300."""
    squares = []
    for seed in range(300):
        truth = regression_data(seed, n=6, steps=2)
        squares.append([np.mean(((f - found.mean) / found.sd) ** 2) for f, found in zip(truth.f, demo.known(truth))])
    assert np.all(np.abs(np.mean(squares, axis=0) - 1) < 0.33)


def test_tables_and_figure():
    matplotlib.use("agg")
    truth = regression_data(1, n=6, steps=3)
    rng = np.random.default_rng(0)
    draws = {name: value + rng.random((20, *np.shape(value))) for name, value in truth.parameters.items()}
    exact = demo.known(truth)
    found = {name: [step._replace(parameters=draws) for step in exact] for name in ("online", "paper")}
    rows = {name: demo.scores(steps, truth) for name, steps in {**found, "known": exact}.items()}
    assert rows["online"] == rows["known"]
    assert demo.latent_table(rows).row_count == 3 + 1
    assert demo.parameter_table(found, truth).row_count == 6
    assert [axis.get_title() for axis in demo.figure(found, exact, truth).axes][3] == "time.lengthscale"
