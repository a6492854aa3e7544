"""Convergence diagnostics of the draws of a step, and what they mean in plain words.

Rank-normalised split R-hat, bulk and tail effective sample sizes (Vehtari et al. 2021), of all quantities at once:
ArviZ has the same, one at a time, which took a fifth of a cheap step.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from scipy.special import ndtri

from seqgp.samplers.info import UpdateInfo

LATENT_VALUES = 16  # of the latent, evenly spread, are looked at in each step
TAILS = (0.05, 0.95)

Chains = Float[np.ndarray, "chains n k"]
Each = Float[np.ndarray, " k"]


def diagnose(z: Chains, latent: Chains, names: list[str]):
    """R-hat, bulk and tail effective sample size of every entry of ``z`` and (the worst) of the latent."""
    chosen = np.unique(np.linspace(0, latent.shape[-1] - 1, LATENT_VALUES).astype(int))
    values = np.concatenate([z, latent[..., chosen]], axis=-1)
    if values.shape[1] < 4:
        empty = dict.fromkeys([*names, "latent"], float("nan"))
        return empty, dict(empty), dict(empty)
    halves = _halves(values)
    ranked = _rank_normalised(halves)

    def named(result, worst) -> dict[str, float]:
        entries = {name: float(value) for name, value in zip(names, result)}
        latent = result[len(names) :]
        return entries | {"latent": float("nan") if np.isnan(latent).all() else float(worst(latent))}

    return named(_rhat(halves, ranked), np.nanmax), named(_ess(ranked), np.nanmin), named(_tail(values), np.nanmin)


def _halves(values: Chains) -> Chains:
    """Each chain as two, so that one that wanders shows."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _rank_normalised(values: Chains) -> Chains:
    from scipy.stats import rankdata  # takes as long to import as all the rest

    flat = values.reshape(-1, values.shape[-1])
    return ndtri((rankdata(flat, axis=0) - 3 / 8) / (len(flat) + 1 / 4)).reshape(values.shape)


def _rhat(values: Chains, ranked: Chains) -> Each:
    folded = _rank_normalised(np.abs(values - np.median(values, axis=(0, 1))))
    return np.fmax(gelman_rubin(ranked), gelman_rubin(folded))


def _tail(values: Chains) -> Each:
    cuts = np.quantile(values, TAILS, axis=(0, 1))
    return np.minimum(*(_ess(_halves((values <= cut).astype(float))) for cut in cuts))


def _ess(values: Chains) -> Each:
    """Of what does not vary at all, as many as there are."""
    size = values.shape[0] * values.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = effective_sample_size(values)
    return np.where(np.ptp(values, axis=(0, 1)) == 0, size, np.minimum(found, size * np.log10(size)))


def remarks(
    updates: dict[str, UpdateInfo],
    rhat: dict[str, float],
    ess: dict[str, float],
    draws: int,
    missing: int,
    size: int,
) -> list[str]:
    """Plain sentences about what is off, with a remedy."""
    found = []
    if missing == size:
        found.append("all of y is missing: the draws are from the predictive distribution")
    for name, info in updates.items():
        if info.capped:
            found.append(
                f"{name}: {info.capped} of {info.updates} slices were capped and kept their value; "
                "the likelihood may be NaN or -inf almost everywhere, or discontinuous"
            )
        if info.not_positive_definite:
            found.append(
                f"{name}: {info.not_positive_definite} proposals had a covariance that is not positive definite, "
                "and were rejected; raise Model(jitter=…), or give several values to try in turn"
            )
        if info.jitter_raised:
            found.append(f"{name}: the jitter was raised for {info.jitter_raised} proposals, as configured")
    for name, value in ess.items():
        if value < 0.05 * draws:
            found.append(f"{name}: ESS {value:.0f} of {draws}; raise sweeps{_where(name)} or draws")
    bad = [name for name, value in rhat.items() if value > 1.05]
    if bad:
        found.append(f"R-hat above 1.05 for {', '.join(bad)}: the chains disagree; raise warmup, sweeps or draws")
    return found


def _where(name: str) -> str:
    return ".mean" if name == "mean" else ""
