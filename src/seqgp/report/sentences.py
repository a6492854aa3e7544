"""What the numbers say, in plain sentences, with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.plots.checks import Check
from seqgp.samplers.info import Info, particle_figure
from seqgp.samplers.remarks import add_up


class Sentence(NamedTuple):
    """A finding; ``good`` says whether anything should be done."""

    good: bool
    text: str


def about_sampling(infos: Sequence[Info]) -> list[Sentence]:
    """What was remarked upon over all steps, added up by kind and by what it was about."""
    found = []
    if all(np.isnan(info.min_ess) for info in infos) and not effective_numbers(infos):
        found.append(Sentence(False, "There are too few draws a chain to judge the mixing: take at least 100 draws."))
    for total in add_up(info.warnings for info in infos):
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
    effective = effective_numbers(infos)
    if checks and effective:
        text = (
            f"No sign of trouble: forecasts are calibrated, and at least {min(effective):.0f} particles were effective"
        )
        return [Sentence(True, f"{text} at every step.")]
    unchecked = [] if checks else ["the forecasts (there is no step to check)"]
    if not effective:
        unchecked.append("the Monte Carlo error of the whole sequence, which no step sees: seqgp.replicate measures it")
    return [Sentence(True, f"Nothing was remarked upon; not checked: {'; '.join(unchecked)}.")]


def effective_numbers(infos: Sequence[Info]) -> list[float]:
    """The effective number of particles after each step, of samplers that have it."""
    found = [particle_figure(info, "effective") for info in infos]
    return [value for value in found if value is not None]


def about_forecasts(checks: Sequence[Check]) -> list[Sentence]:
    """Whether forecasts were calibrated."""
    if not checks:
        return []
    values = np.concatenate([check.pit for check in checks])
    counts = [len(check.pit) for check in checks]
    inside = float(np.average([check.most for check in checks], weights=counts))
    # Errors of one step are correlated, so the steps, not the data, count as independent.
    margin = 2 * np.sqrt(0.95 * 0.05 / min(len(values), 10 * len(checks)))
    base = f"Of {len(values)} data, {inside:.0%} fell inside their 95 % forecast interval"
    if inside < 0.95 - margin:
        remedy = (
            "the forecasts are too sure: widen the priors of noise and scale, or let the time lengthscale be shorter"
        )
        found = [Sentence(False, f"{base}: {remedy}.")]
    elif inside > 0.95 + margin:
        found = [Sentence(False, f"{base}: the forecasts are wider than they need be: narrow the prior of the noise.")]
    else:
        found = [Sentence(True, f"{base}.")]
    shift = float(np.mean(values)) - 0.5
    if abs(shift) > 0.1:
        side = "below" if shift > 0 else "above"
        found.append(
            Sentence(False, f"The forecasts lie {side} the data on the whole: let the mean be inferred, or widen it.")
        )
    return found
