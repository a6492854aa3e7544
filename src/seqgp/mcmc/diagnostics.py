"""Convergence diagnostics of the draws of a step, and what they mean in plain words.

Rank-normalised split R-hat, bulk and tail effective sample sizes (Vehtari et al. 2021), of all quantities at once:
ArviZ has the same, one at a time, which took a fifth of a cheap step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from scipy.special import fdtri, ndtri

from seqgp.base.info import UpdateInfo
from seqgp.base.remarks import Remark

LATENT_VALUES = 16  # of the latent, evenly spread, are looked at in each step
TAILS = (0.05, 0.95)
MARGIN = 2.0

Values = Float[np.ndarray, "chains n k"]
Each = Float[np.ndarray, " k"]


class Diagnosis(NamedTuple):
    """Of every entry of ``z``, and (the worst) of the latent, by name."""

    rhat: dict[str, float]
    rhat_limit: dict[str, float]  # what R-hat may reach by chance
    ess: dict[str, float]
    ess_tail: dict[str, float]


def diagnose(z: Values, latent: Values, names: list[str]) -> Diagnosis:
    """R-hat with what chance allows, bulk and tail effective sample size of ``z`` and of some of the latent."""
    chosen = np.unique(np.linspace(0, latent.shape[-1] - 1, LATENT_VALUES).astype(int))
    values = np.concatenate([z, latent[..., chosen]], axis=-1)
    if values.shape[1] < 4:
        return Diagnosis(*(dict.fromkeys([*names, "latent"], float("nan")) for _ in Diagnosis._fields))
    halves = _halves(values)
    ranked = rank_normalised(halves)

    def named(result, worst) -> dict[str, float]:
        entries = {name: float(value) for name, value in zip(names, result)}
        latent = result[len(names) :]
        return entries | {"latent": float("nan") if np.isnan(latent).all() else float(worst(latent))}

    within = _ess(ranked - ranked.mean(axis=1, keepdims=True))
    every = float(halves.shape[0] * halves.shape[1])
    within = np.where((within > 0) & (within < every), within, every)  # of a few draws, centred, anything is found
    return Diagnosis(
        named(_rhat(halves, ranked), np.nanmax),
        named(rhat_limit(within, len(halves)), np.nanmax),
        named(_ess(ranked), np.nanmin),
        named(_tail(values), np.nanmin),
    )


def rhat_limit(within: Each, halves: int) -> Each:
    """What R-hat may reach by chance: in one step of a thousand, where all chains sample the same distribution.

    The means of ``m`` half chains that are worth ``within`` independent draws together, had each the right mean, vary
    so that ``R-hat² = 1 + (m / within) F``, with ``m − 1`` and ``within − m`` degrees of freedom. There are two R-hats
    of each quantity. The margin is for the autocorrelation of short chains, which is found too small.
    """
    chance = 1e-3 / (2 * len(within))
    quantile = fdtri(halves - 1, np.maximum(within - halves, 1.0), 1 - chance)
    return np.sqrt(1 + MARGIN * quantile * halves / np.maximum(within, 1.0))


def _halves(values: Values) -> Values:
    """Each chain as two, so that one that wanders shows."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def rank_normalised(values: Values) -> Values:
    """Ranks among all draws, as quantiles of a normal distribution."""
    flat = values.reshape(-1, values.shape[-1])
    ranks = np.stack([_ranks(column) for column in flat.T], axis=1)
    return ndtri((ranks - 3 / 8) / (len(flat) + 1 / 4)).reshape(values.shape)


def _ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """From 1, those of equal values averaged; SciPy's takes as long to import as all the rest."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _rhat(values: Values, ranked: Values) -> Each:
    folded = rank_normalised(np.abs(values - np.median(values, axis=(0, 1))))
    return np.fmax(gelman_rubin(ranked), gelman_rubin(folded))


def _tail(values: Values) -> Each:
    cuts = np.quantile(values, TAILS, axis=(0, 1))
    return np.minimum(*(_ess(_halves((values <= cut).astype(float))) for cut in cuts))


def _ess(values: Values) -> Each:
    """Of what does not vary at all, as many as there are.

    For chains whose neighbours repel each other the estimate of the autocorrelation time may be small, or negative; it
    is bounded as in Stan, so that the size is positive and at most ``n log10 n``.
    """
    size = values.shape[0] * values.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = effective_sample_size(values)
        time = np.maximum(size / found, 1.0 / np.log10(size))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, size, size / time)


def remarks(
    updates: dict[str, UpdateInfo],
    diagnosis: Diagnosis,
    draws: int,
    missing: int,
    size: int,
    remedy: str = "draws",
) -> list[str]:
    """Plain sentences about what is off, with a remedy.

    ``draws`` are those of all chains, ``remedy`` names the settings to raise where they mix slowly.
    """
    found = []
    if missing == size:
        found.append(Remark("no data", (), "all of y is missing: the draws are from the predictive distribution"))
    for name, info in updates.items():
        if info.capped:
            text = (
                f"{info.capped} of {info.updates} slices were capped and kept their value; "
                "the likelihood may be NaN or -inf almost everywhere, or discontinuous"
            )
            found.append(Remark("capped slices", (name,), text))
        if info.not_positive_definite:
            text = (
                f"{info.not_positive_definite} proposals had a covariance that is not positive definite, "
                "and were rejected; raise Model(jitter=…), or give several values to try in turn"
            )
            found.append(Remark("not positive definite", (name,), text))
        if info.jitter_raised:
            found.append(Remark("jitter raised", (name,), f"for {info.jitter_raised} proposals, as configured"))
    return [str(remark) for remark in (*found, *_mixing(diagnosis, draws, remedy))]


def least_ess(draws: int) -> float:
    """Below it draws are too few effective ones to be used: means are off by a fifth of an sd, or more."""
    return min(25.0, draws / 16)


def _mixing(found: Diagnosis, draws: int, remedy: str) -> list[Remark]:
    remarks = []
    slow = {name: value for name, value in found.ess.items() if value < least_ess(draws)}
    if slow:
        text = f"least ESS {min(slow.values()):.0f} of {draws} draws, {least_ess(draws):.0f} are needed"
        remarks.append(Remark("slow mixing", tuple(slow), f"{text}; raise {remedy}"))
    apart = {name: value for name, value in found.rhat.items() if value > found.rhat_limit[name] and name not in slow}
    if apart:
        worst = max(apart, key=lambda name: apart[name])
        text = f"R-hat is {apart[worst]:.2f} where chance allows {found.rhat_limit[worst]:.2f}"
        remarks.append(Remark("chains disagree", tuple(apart), f"{text}; raise {remedy}"))
    return remarks
