"""What the numbers say, in plain sentences, with what to do about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.io.checks import Check
from seqgp.samplers.info import Info

GOOD_RHAT, POOR_SHARE = 1.05, 0.05


class Sentence(NamedTuple):
    """A finding; ``good`` says whether anything should be done."""

    good: bool
    text: str


def about_sampling(infos: Sequence[Info], draws: int) -> list[Sentence]:
    """Whether the chains mixed, over all steps."""
    ess = np.array([info.min_ess for info in infos])
    rhat = np.array([info.max_rhat for info in infos])
    found = []
    poor, apart = int(np.sum(ess < POOR_SHARE * draws)), int(np.sum(rhat > GOOD_RHAT))
    steps = "the only step" if len(infos) == 1 else f"all {len(infos)} steps"
    if np.isnan(ess).all():
        found.append(Sentence(False, "There are too few draws a chain to judge the mixing: take at least 100 draws."))
    elif not poor and not apart:
        low, high = np.nanmin(ess), np.nanmax(rhat)
        found.append(
            Sentence(True, f"The chains mixed well in {steps}: least ESS {low:.0f}, largest R-hat {high:.3f}.")
        )
    for text, count in _grouped(infos).items():
        where = "" if len(infos) == 1 else f" (in {count} of {len(infos)} steps)"
        found.append(Sentence(False, f"{text[0].upper()}{text[1:]}{where}."))
    if apart and not any("R-hat" in sentence.text for sentence in found):
        found.append(Sentence(False, f"In {apart} steps R-hat exceeds {GOOD_RHAT}: raise draws or warmup."))
    return found


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
        found = [Sentence(True, f"{base}: no sign of trouble.")]
    shift = float(np.mean(values)) - 0.5
    if abs(shift) > 0.1:
        side = "below" if shift > 0 else "above"
        found.append(
            Sentence(False, f"The forecasts lie {side} the data on the whole: let the mean be inferred, or widen it.")
        )
    return found


def _grouped(infos: Sequence[Info]) -> Counter[str]:
    """The remarks of all steps, those that differ only in their numbers counted as one (the latest is shown)."""
    latest: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for info in infos:
        for warning in info.warnings:
            kind = re.sub(r"[\d.]+", "#", warning.split(" for ")[0] if "R-hat" in warning else warning)
            latest[kind] = warning
            counts[kind] += 1
    return Counter({latest[kind]: count for kind, count in counts.most_common()})
