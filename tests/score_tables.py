"""A small network of six stations, and a configuration for it: for tests of scores from the command line."""

import numpy as np
import pandas as pd

CONFIG = """\
[data]
file = "table.csv"
time = "day"
inputs = ["x"]
value = "level"
location = "station"

[model]
time = { kernel = "Matern12", lengthscale = 3.0 }
space = { kernel = "Matern12", lengthscale = 1.0 }
mean = 1.0
likelihood = { noise = 0.3 }

[sampler]
particles = 16
draws = 100

[run]
folder = "run"
"""


def table(steps=8):
    rng = np.random.default_rng(2)
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(steps), np.arange(6), indexing="ij"))
    dates = pd.date_range("2024-05-01", periods=steps)[t].strftime("%Y-%m-%d")
    y = 1 + np.sin(0.5 * t + i) + 0.3 * rng.standard_normal(len(t))
    return pd.DataFrame({"day": dates, "station": [f"S{n}" for n in i], "x": i * 0.4, "level": y})
