"""Whether two runs gave the same: bit for bit, or but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Ran

CLOSE = 1e-6  # relative, of what is the same but for rounding


def same(what: str, a: Any, b: Any) -> list[str]:
    """Bit for bit."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return [f"{what}: shapes {a.shape} and {b.shape}"]
    if np.array_equal(a, b, equal_nan=True):
        return []
    return [f"{what}: not bit for bit the same, off by {np.nanmax(np.abs(a - b)):.3g}"]


def alike(what: str, a: Any, b: Any, atol: float) -> list[str]:
    a, b = np.asarray(a, float), np.asarray(b, float)
    off = np.abs(a - b)
    if a.shape == b.shape and (off <= atol + CLOSE * np.abs(b)).all():
        return []
    return [f"{what}: {np.max(off):.3g} apart, where {atol:.1g} is rounding ({a.ravel()[0]:.8g}, {b.ravel()[0]:.8g})"]


def same_runs(what: str, a: Ran, b: Ran) -> list[str]:
    found = same(f"{what}: log evidence", a.run.infos[-1].log_evidence, b.run.infos[-1].log_evidence)
    found += same(f"{what}: draws of the latent", a.run.state.latent, b.run.state.latent)
    for name in a.run.state.parameters:
        found += same(f"{what}: draws of {name}", a.run.state.parameters[name], b.run.state.parameters[name])
    return found
