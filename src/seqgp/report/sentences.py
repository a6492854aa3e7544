"""What the numbers say, in plain sentences, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.base.flags import HEADLINES
from seqgp.base.info import Info, OnlineInfo
from seqgp.base.remarks import add_up
from seqgp.evaluate.prequential import uniform_p_value
from seqgp.evaluate.stations import StationReport
from seqgp.io.lattice import unknown_between
from seqgp.model import Model
from seqgp.plots.checks import Check
from seqgp.plots.history import History

UNEVEN = 1e-3  # p-value of a uniform PIT below which it is said
MOST_PAST = 5  # faults that are over
SETTINGS = "particles|draws|paths|history|forget|order|latent|tau|chains|warmup|thin"


def for_command_line(text: str) -> str:
    """Advice with the keys of a configuration in place of arguments in Python."""
    text = re.sub(rf"\b({SETTINGS})=", r"`\1` in [sampler]", text)
    text = text.replace("seqgp.SequentialSampler", 'method = "sequential"')
    return re.sub(r"`?seqgp\.replicate`? measures it", "runs with other seeds (`seed` in [run]) show it", text)


class Sentence(NamedTuple):
    """A finding; ``good`` says whether anything should be done."""

    good: bool
    text: str


def about_stations(found: StationReport | None) -> list[Sentence]:
    """Which stations are flagged at the end of the run, and which were."""
    if found is None:
        return []
    return [Sentence(False, f"{sentence}.") for sentence in [*found.sentences(), *found.past_sentences()[-MOST_PAST:]]]


def about_sampling(infos: Sequence[Info], monitored: bool = False) -> list[Sentence]:
    """What was remarked upon over all steps, added up by kind and by what it was about.

    Args:
        infos: of the steps.
        monitored: whether stations are reported on their own.
    """
    found = []
    if all(np.isnan(info.min_ess) for info in infos):
        found.append(Sentence(False, "There are too few draws a chain to judge the mixing: take at least 100 draws."))
    for total in add_up(info.warnings for info in infos):
        if monitored and total.kind in HEADLINES.values():
            continue
        text = f"{total.among(len(infos))}{f': {total.text}' if total.text else ''}"
        found.append(Sentence(False, f"{text[0].upper()}{text[1:]}."))
    return found


def verdict(infos: Sequence[Info], checks: Sequence[Check], sentences: Sequence[Sentence]) -> list[Sentence]:
    """Whether all is well, where checks were made that would have found it if not; otherwise what was not checked.

    R-hat and ESS look at one step. What a sequence of steps has lost shows in the spread between independent runs, or
    in the effective number of particles, and nowhere else.
    """
    if any(not sentence.good for sentence in sentences):
        return []
    effective = [info.ess for info in infos if isinstance(info, OnlineInfo)]
    if checks and effective:
        text = (
            f"No sign of trouble: forecasts are calibrated, and at least {min(effective):.0f} particles were effective"
        )
        return [Sentence(True, f"{text} at every step.")]
    unchecked = [] if checks else ["the forecasts (there is no step to check)"]
    if not effective:
        unchecked.append("the Monte Carlo error of the whole sequence, which no step sees: seqgp.replicate measures it")
    return [Sentence(True, f"Nothing was remarked upon; not checked: {'; '.join(unchecked)}.")]


def about_forecasts(checks: Sequence[Check]) -> list[Sentence]:
    """Whether forecasts were calibrated."""
    if not checks:
        return []
    values = np.concatenate([check.pit for check in checks])
    # Errors of one step are correlated, so the steps, not the data, count as independent.
    count = min(len(values), 10 * len(checks))
    most, half = (_inside(checks, name, level, count) for name, level in (("most", 0.95), ("half", 0.5)))
    base = (
        f"Of the {len(values):,} data of the last {len(checks)} steps, {most.share:.0%} fell inside their 95% "
        f"forecast interval and {half.share:.0%} inside their 50% one"
    )
    uneven = uniform_p_value(_thinned(values, count)) < UNEVEN
    if most.off < 0 and half.off > 0:
        what = "the data have outliers that the model does not expect: look at the stations, or take a likelihood "
        found = [Sentence(False, f"{base}: {what}with heavy tails.")]
    elif most.off < 0 or half.off < 0:
        remedy = "widen the priors of noise and scale, or let the time lengthscale be shorter"
        found = [Sentence(False, f"{base}: the intervals are too narrow; {remedy}.")]
    elif most.off > 0 or half.off > 0:
        found = [Sentence(False, f"{base}: the intervals are too wide; check the prior of the noise.")]
    elif uneven:
        found = [Sentence(False, f"{base}, but where the data fell in their forecasts (PIT) is not uniform.")]
    else:
        found = [Sentence(True, f"{base}.")]
    shift = float(np.mean(values)) - 0.5
    if abs(shift) > 0.1:
        side = "below" if shift > 0 else "above"
        found.append(
            Sentence(False, f"The forecasts lie {side} the data on the whole: let the mean be inferred, or widen it.")
        )
    return found


class _Share(NamedTuple):
    """Of data inside an interval."""

    share: float
    off: int  # -1 too few, 1 too many, 0 as many as there should be


def _inside(checks: Sequence[Check], name: str, level: float, count: int) -> _Share:
    share = float(np.average([getattr(check, name) for check in checks], weights=[len(check.pit) for check in checks]))
    margin = 2 * np.sqrt(level * (1 - level) / count)
    return _Share(share, int(share > level + margin) - int(share < level - margin))


def _thinned(values: np.ndarray, count: int) -> np.ndarray:
    """So many of the values in order of size, evenly spread: their distribution, at the size that counts."""
    return np.sort(values)[np.linspace(0, len(values) - 1, count).round().astype(int)]


def about_latent(history: History, on_grid: bool, model: Model | None) -> str:
    """What the figure of the latent shows, and why there is no map where there could be one."""
    dimension = history.steps[-1].x.shape[1]
    if dimension == 1:
        return f"The median, with bands that hold 50 % and 95 % of the posterior{about_dots(history)}."
    if dimension == 2:
        ground = "Mean and standard deviation of the posterior at the points of a grid; dots are the locations. "
        return (ground if on_grid else f"The posterior mean at the locations{_why_no_map(history, model)}. ") + (
            "Point at a dot for its value, uncertainty and datum."
        )
    dots = about_dots(history)
    return f"The median at each location, with an interval that holds 95 % of the posterior{dots}."


def _why_no_map(history: History, model: Model | None) -> str:
    if model is None:
        return "; there is no map between them, as the model has code of its own: report(…, model=…)"
    x = np.concatenate([moment.x for moment in history.steps])
    why = unknown_between(model, x)
    remedy = "; seqgp report --grid draws one over a grid that has them" if "covariates" in why else ""
    return f"; there is no map of the model between them: {why}{remedy}" if why else ""


def about_dots(history: History) -> str:
    """What dots are, or why there are none."""
    if history.beside:
        return "; dark dots are data"
    return "; the data are not drawn, as the latent is not in their units (a log rate, or log odds, say)"
