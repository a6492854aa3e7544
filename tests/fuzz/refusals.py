"""Which refusals are true: each reason that seqgp may give, with what must hold of the case for it to be so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

REASONS: list[tuple[str, Any]] = []


def reason(pattern: str):
    """Register when a message that matches is true."""

    def keep(function):
        REASONS.append((pattern, function))
        return function

    return keep


@reason(r"a noise of .* is lost in the rounding")
def _(case) -> bool:
    from .cases import ratio_of

    return ratio_of(case) > 1e6


@reason(r"covariate '(\w+)' is .* its weight cannot be told from the intercept")
def _(case) -> bool:
    """A covariate that is the same at all data, beside an intercept that is inferred."""
    constant = any(
        len({value for _, x, _, context in case.snapshots for value in _column(one, x, context)}) == 1
        for one in case.model["mean"]["features"]
        if one.get("period") is None
    )
    return constant and isinstance(case.model["mean"]["intercept"], tuple)


def _column(feature: dict, x: Any, context: dict) -> list[float]:
    values = x[:, feature["column"]] if feature.get("column") is not None else context[feature["name"]]
    return [float(value) for value in values]


@reason(r"expectation propagation did not converge")
def _(case) -> bool:
    """Log-concave likelihoods have one mode, and sites that converge: for them it is no excuse."""
    return case.shape.family in ("StudentT", "Censored", "Beta", "NegativeBinomial") and case.frame.extreme


@reason(r"delays between the \d+ stations spread over up to")
def _(case) -> bool:
    """Priors of the slowness under which delays spread over more than the time between two snapshots."""
    x = np.concatenate([one[1] for one in case.snapshots])
    slowness = np.array([one[1] if isinstance(one, tuple) else one for one in case.model["slowness"]])
    gaps = np.diff([one[0] for one in case.snapshots])
    return bool(np.ptp(x @ slowness) * (1 + 1e-6) > gaps.min())


@reason(r"the noises of stations \(by='station'\) are learnt from the data as they came")
def _(case) -> bool:
    """Corrected data in a run with a noise for each station."""
    return case.shape.by_station


def is_true(case, error: Exception) -> bool:
    """Whether a refusal's reason is known, and true of the case."""
    said = " ".join(str(error).split())
    return any(re.search(pattern, said) and holds(case) for pattern, holds in REASONS)
