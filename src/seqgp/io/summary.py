"""What is kept of every step, however old: moments and quantiles of latent and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.base.transforms import Transform
from seqgp.evaluate.motion import Motion, motions
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.online.stations import StationNoise

PROBABILITIES = (0.025, 0.25, 0.5, 0.75, 0.975)
STATISTICS = ("mean", "sd", "2.5%", "25%", "50%", "75%", "97.5%")


class Summary(NamedTuple):
    """Mean, standard deviation and five quantiles (in the order of ``STATISTICS``)."""

    latent: Float[np.ndarray, "statistics N"]  # of f at the snapshot's inputs, in units of data that are transformed
    parameters: dict[str, np.ndarray]  # (statistics,) or (statistics, entries), in natural units

    def row(self, statistic: str) -> Float[np.ndarray, " N"]:
        """One statistic of the latent by its name."""
        return self.latent[STATISTICS.index(statistic)]


def summarise(state: State, transform: Transform | None = None) -> Summary:
    """The summary of a state; where data are transformed, that of the latent function is in their own units."""
    latent = state.latent if transform is None else transform.inverse(state.latent)
    values = [np.asarray(one) for one in (latent, *state.parameters.values())]
    # Of contiguous rows: five times as fast as down the columns. All at once: a call costs more than the numbers.
    rows = np.concatenate([one.reshape(len(one), -1).T for one in values])
    found = np.stack([rows.mean(axis=1), rows.std(axis=1), *np.quantile(rows, PROBABILITIES, axis=1)])
    ends = np.cumsum([one[0].size for one in values])[:-1]
    latent, *others = (part.reshape(-1, *one.shape[1:]) for part, one in zip(np.split(found, ends, axis=1), values))
    return Summary(latent, dict(zip(state.parameters, others)))


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


class RunSummary(NamedTuple):
    """The parameters of a state, how patterns move, and the noise of each station where they differ."""

    t: float
    parameters: dict[str, dict[str, float]]  # by name, and by statistic (``STATISTICS``)
    motions: tuple[Motion, ...]
    noise: StationNoise | None = None

    def __str__(self) -> str:
        """A table, a line for each motion, and a table of stations, the noisiest first."""
        shown = ("mean", "sd", "2.5%", "50%", "97.5%")
        width = max((len(name) for name in self.parameters), default=0)
        lines = [f"t = {self.t:g}", f"{'':{width}}" + "".join(f"{name:>11}" for name in shown)]
        for name, values in self.parameters.items():
            lines.append(f"{name:{width}}" + "".join(f"{values[one]:>11.4g}" for one in shown))
        stations = [] if self.noise is None else self.noise.lines()
        return "\n".join([*lines, *map(str, self.motions), *stations])


def run_summary(model: Model, state: State, data: Mapping[str, object]) -> RunSummary:
    """Of a state; ``data`` is the section of a configuration, for units."""
    statistics: dict[str, dict[str, float]] = {
        name: dict(zip(map(str, STATISTICS), values.tolist()))
        for name, values in flat_parameters(summarise(state).parameters).items()
    }
    noise = getattr(state, "station_noise", None)
    return RunSummary(float(state.t), statistics, motions(model, state.parameters, data), noise)
