"""A model that suits what ``seqgp.explore`` found, with priors in the units of the data; the findings in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpyro.distributions as dist

from seqgp import kernels, likelihoods
from seqgp.base.priors import ScaledSigmoid
from seqgp.evaluate.variogram import VariogramFit
from seqgp.kernels.delayed import Delayed
from seqgp.kernels.separable import Separable
from seqgp.model import Model

if TYPE_CHECKING:
    from seqgp.evaluate.explore import Asymmetry, DataExploration, SeasonalVariance, StationTable

LARGE, SMALL = 0.7, 0.5  # standard deviations of logarithms
SHARE = 0.05  # of the standard deviation of the data: the least that scale and noise are taken to be
ROUND = 3  # digits of a prior


class SuggestedPrior(NamedTuple):
    """``LogNormal(loc, scale)``, ``Normal(loc, scale)`` or ``ScaledSigmoid(low, high)``."""

    distribution: str
    first: float
    second: float

    def __str__(self) -> str:
        """As a call; of a log-normal, also the median and the central 95%."""
        text = f"{self.distribution}({self.first:g}, {self.second:g})"
        if self.distribution != "LogNormal":
            return text
        low, middle, high = np.exp(self.first + np.array([-1.96, 0.0, 1.96]) * self.second)
        return f"{text}: {middle:.3g}, 95% {low:.3g} to {high:.3g}"

    def build(self) -> Any:
        """The prior."""
        if self.distribution == "ScaledSigmoid":
            return ScaledSigmoid(self.first, self.second)
        return getattr(dist, self.distribution)(self.first, self.second)


class Suggestion(NamedTuple):
    """A model by names, and its priors by the names of parameters."""

    kernel: str  # "Separable" or "Delayed"
    time: str
    space: str
    by_station: bool  # whether the noise differs between stations
    seasonal: bool  # whether the variance has a season
    priors: dict[str, SuggestedPrior]

    def slowness(self) -> tuple[SuggestedPrior, ...]:
        """The priors of the slowness along each column of ``x``; none without a delay."""
        return tuple(prior for name, prior in self.priors.items() if name.startswith("slowness"))

    def model(self) -> Model:
        """The model: Gaussian data, one noise for all stations, a constant mean."""
        priors = {name: prior.build() for name, prior in self.priors.items()}
        kernel = Separable(
            time=getattr(kernels, self.time)(lengthscale=priors["time.lengthscale"]),
            space=getattr(kernels, self.space)(lengthscale=priors["space.lengthscale"]),
            scale=priors["scale"],
        )
        slowness = [prior.build() for prior in self.slowness()]
        noise = likelihoods.Gaussian(noise=priors["noise"])
        return Model(Delayed(kernel, slowness=slowness) if slowness else kernel, noise, priors["mean"])


def suggest(
    table: StationTable,
    best: VariogramFit,
    noise: float,
    asymmetry: Asymmetry,
    by_station: bool,
    season: SeasonalVariance | None,
) -> Suggestion:
    """Priors around what was found: a factor of two for scale and noise, of four for lengthscales, at two sds."""
    sd = float(np.nanstd(table.y))
    scale = max(best.scale, SHARE * sd)
    level = 2 * float(np.std(np.nanmean(table.y, axis=0))) + scale
    priors = {
        "time.lengthscale": _log_normal(best.time_lengthscale, LARGE),
        "space.lengthscale": _log_normal(best.space_lengthscale, LARGE),
        "scale": _log_normal(scale, SMALL),
        "noise": _log_normal(max(noise, SHARE * sd), LARGE),
        "mean": SuggestedPrior("Normal", _rounded(float(np.nanmean(table.y))), _rounded(level)),
    }
    if asymmetry.delay:
        bound = _rounded(float(np.linalg.norm(asymmetry.slowness) + 5 * np.max(asymmetry.se)))
        for i in range(len(asymmetry.slowness)):
            priors[f"slowness[{i}]"] = SuggestedPrior("ScaledSigmoid", -bound, bound)
    kernel = "Delayed" if asymmetry.delay else "Separable"
    return Suggestion(kernel, best.time, best.space, by_station, season is not None and season.seasonal, priors)


def _log_normal(median: float, sd: float) -> SuggestedPrior:
    return SuggestedPrior("LogNormal", round(float(np.log(median)), ROUND), sd)


def _rounded(value: float) -> float:
    return float(f"{value:.{ROUND}g}")


def in_words(found: DataExploration) -> list[str]:
    """A sentence for each finding."""
    best, table = found.candidates[0], found.stations
    lines = [
        f"{len(table.x)} stations at {len(table.t)} times, {100 * found.missing.share:.1f}% missing",
        f"kernel: {best.time} in time, lengthscale {best.time_lengthscale:.3g}, times {best.space} in space, "
        f"lengthscale {best.space_lengthscale:.3g}; scale {best.scale:.3g}, noise {best.noise:.3g}",
        _delay_words(found.asymmetry),
        _noise_words(found),
    ]
    if found.season is not None:
        amplitude = np.exp(np.hypot(*found.season.coefficients))
        lines.append(
            f"season: the standard deviation is {amplitude**2:.2g} times as large at its highest as at its lowest"
            if found.season.seasonal
            else "season: none of the variance found"
        )
    lines += _missing_words(found)
    lines.append(f"suggested: a {found.suggested.kernel} kernel, with these priors")
    return [*lines, *(f"  {name} ~ {prior}" for name, prior in found.suggested.priors.items())]


def findings(found: DataExploration) -> list[str]:
    """The same without the suggested model."""
    return in_words(found)[: -1 - len(found.suggested.priors)]


def _delay_words(asymmetry: Asymmetry) -> str:
    if not asymmetry.delay:
        return f"delay: none found (p = {asymmetry.p_value:.2g})"
    each = ", ".join(f"{s:.3g} ± {e:.2g}" for s, e in zip(asymmetry.slowness, asymmetry.se))
    slowness = np.asarray(asymmetry.slowness)
    bearing = np.degrees(np.arctan2(slowness[0], slowness[-1])) % 360  # from north, the second column of x
    way = f" towards {bearing:.0f}°" if len(slowness) == 2 else ""
    return (
        f"delay: stations lag behind others (p = {asymmetry.p_value:.2g}): slowness {each} in time per distance, about "
        f"{1 / np.linalg.norm(slowness):.3g} in distance per time{way}"
    )


def _noise_words(found: DataExploration) -> str:
    noise, names = found.noise.noise, found.stations.names
    worst = int(np.nanargmax(noise)) if np.any(~np.isnan(noise)) else None
    if worst is None or not found.noise.differ:
        return "noise: no station differs from the others beyond chance"
    return (
        f"noise: stations differ, from {np.nanmin(noise):.3g} to {noise[worst]:.3g} at {names[worst]} "
        f"(median {np.nanmedian(noise):.3g})"
    )


def _missing_words(found: DataExploration) -> list[str]:
    missing, names = found.missing, found.stations.names
    late = [names[k] for k in missing.late]
    more = f" and {len(late) - 3} more" if len(late) > 3 else ""
    return [
        *([f"stations that never report: {missing.absent}"] if missing.absent else []),
        *([f"joined late: {', '.join(late[:3])}{more}"] if late else []),
    ]
