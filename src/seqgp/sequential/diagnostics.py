"""Convergence diagnostics of the draws of a step (ArviZ), and what they mean in plain words."""

from __future__ import annotations

import numpy as np
from arviz_stats.base import array_stats
from jaxtyping import Float

from seqgp.sequential.state import UpdateInfo

LATENT_VALUES = 16  # of the latent, evenly spread, are looked at in each step: each costs milliseconds


def diagnose(z: Float[np.ndarray, "chains n d"], latent: Float[np.ndarray, "chains n N"], names: list[str]):
    """R-hat, bulk and tail effective sample size of every entry of ``z`` and (the worst) of the latent."""
    chosen = np.unique(np.linspace(0, latent.shape[-1] - 1, LATENT_VALUES).astype(int))
    values = np.concatenate([z, latent[..., chosen]], axis=-1)
    usable = values.shape[1] >= 4
    if not usable:
        empty = dict.fromkeys([*names, "latent"], float("nan"))
        return empty, dict(empty), dict(empty)
    rhat = array_stats.rhat(_at_least_two(values), chain_axis=0, draw_axis=1)
    bulk = array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")
    tail = array_stats.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=0.1)

    def named(result, worst) -> dict[str, float]:
        entries = {name: float(value) for name, value in zip(names, result)}
        latent = result[len(names) :]
        return entries | {"latent": float("nan") if np.isnan(latent).all() else float(worst(latent))}

    return named(rhat, np.nanmax), named(bulk, np.nanmin), named(tail, np.nanmin)


def _at_least_two(values: np.ndarray) -> np.ndarray:
    """One chain as its two halves: R-hat compares chains."""
    if values.shape[0] > 1:
        return values
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


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
