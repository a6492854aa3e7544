"""GPBoost: one maximum-likelihood fit of a network with gaps, by Vecchia's approximation, without a posterior."""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

import time

import gpboost
import numpy as np
from problem import load, tell

NEIGHBOURS = 20


def main() -> None:
    """Of the values that are there."""
    network = load()
    step, station = np.nonzero(~np.isnan(network.y))
    coords = np.column_stack([step.astype(float), network.x[station]])
    model = gpboost.GPModel(
        gp_coords=coords, cov_function="matern_space_time", cov_fct_shape=1.5, gp_approx="vecchia",
        num_neighbors=NEIGHBOURS,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(y=network.y[step, station], params={"trace": False})
    tell(seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
