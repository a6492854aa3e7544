"""What is kept of every step, however old: moments and quantiles of latent and parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.samplers.protocol import State

PROBABILITIES = (0.025, 0.25, 0.5, 0.75, 0.975)
STATISTICS = ("mean", "sd", "2.5%", "25%", "50%", "75%", "97.5%")


class Summary(NamedTuple):
    """Mean, standard deviation and five quantiles (in the order of ``STATISTICS``)."""

    latent: Float[np.ndarray, "statistics N"]  # of the level at the snapshot's inputs
    parameters: dict[str, np.ndarray]  # (statistics,) or (statistics, entries), in natural units

    def row(self, statistic: str) -> Float[np.ndarray, " N"]:
        """One statistic of the latent by its name."""
        return self.latent[STATISTICS.index(statistic)]


def summarise(state: State) -> Summary:
    """The summary of a state."""
    return Summary(_statistics(state.latent), {name: _statistics(values) for name, values in state.parameters.items()})


def flat_parameters(parameters: dict[str, Any]) -> dict[str, np.ndarray]:
    """One entry per scalar parameter (``space.lengthscale[0]``), from arrays with a leading axis."""
    flat: dict[str, np.ndarray] = {}
    for name, values in parameters.items():
        array = np.asarray(values)
        if array.ndim == 1:
            flat[name] = array
        else:
            flat |= {f"{name}[{i}]": array[:, i] for i in range(array.shape[1])}
    return flat


def _statistics(draws: Any) -> np.ndarray:
    values = np.asarray(draws)
    # Quantiles of contiguous rows: five times as fast as those down the columns.
    quantiles = np.quantile(np.ascontiguousarray(np.moveaxis(values, 0, -1)), PROBABILITIES, axis=-1)
    return np.concatenate([values.mean(axis=0)[None], values.std(axis=0)[None], quantiles])
