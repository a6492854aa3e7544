"""GPBoost: one maximum-likelihood fit of a space-time Gaussian process to all data, without a posterior.

Its separable exponential kernels differ from the model of the stream, so parameters are not compared, only the cost.
"""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

import time

import gpboost
import numpy as np
from problem import load, tell


def main() -> None:
    """The exact likelihood, and Vecchia's approximation."""
    stream = load()
    steps, stations = stream.y.shape
    coords = np.column_stack([np.repeat(np.arange(steps, dtype=float), stations), np.tile(stream.x, (steps, 1))])
    found = {}
    for name, settings in {"exact": {}, "vecchia": {"gp_approx": "vecchia", "num_neighbors": 20}}.items():
        model = gpboost.GPModel(gp_coords=coords, cov_function="matern_space_time", cov_fct_shape=0.5, **settings)
        start = time.perf_counter()
        model.fit(y=stream.y.ravel(), params={"trace": False})
        found[f"{name}_seconds"] = time.perf_counter() - start
    tell(**found)


if __name__ == "__main__":
    main()
