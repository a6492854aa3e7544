"""Priors of the surface: one separable kernel, or a mean surface that hardly moves and innovations around it."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Literal

import numpyro.distributions as dist

import seqgp

SurfacePrior = Literal["separable", "sticky"]
MEMORY = 20.0  # years, over which the mean surface forgets


def surface_prior(name: SurfacePrior, shape: tuple[int, int], given: Collection[str] = ()) -> dict[str, Any]:
    """Options of `LocalVolatility` for a prior by its name; the separable one is that of the class itself."""
    if name == "separable":
        return {}
    if name != "sticky":
        raise ValueError(f"surface = {name!r}: expected 'separable' or 'sticky'")
    unused = sorted({"time", "lengthscales", "scale"} & set(given))
    if unused:
        raise ValueError(f"{', '.join(unused)}: of the separable surface; give kernel= to change the sticky one")
    return {
        "kernel": surface_kernel(shape),
        "stickiness": stickiness_prior(),
        "leverage": leverage_prior(),
        "clock": "business",
    }


def spacings_of(shape: tuple[int, int]) -> list[float]:
    """The distances of neighbouring knots in the unit square, at most a half."""
    return [min(0.5, 1 / max(n - 1, 1)) for n in shape]


def surface_kernel(shape: tuple[int, int]) -> Any:
    """`mean surface + innovations`, over quote dates in years and knots in the unit square.

    The mean surface keeps its shape for years, so that a forecast is not drawn back to a flat level; it is as rough as
    the knots allow. Innovations are smooth, level and skew above all, and are forgotten within months.

    Args:
        shape: how many knots in maturity and in log-moneyness; lengthscales are not below their spacing.
    """
    spacings = spacings_of(shape)
    mean_surface = seqgp.Separable(
        time=seqgp.kernels.Matern12(lengthscale=MEMORY),
        space=seqgp.kernels.SquaredExponential(lengthscale=[seqgp.ScaledSigmoid(low, 1.0) for low in spacings]),
        scale=dist.LogNormal(math.log(0.5), 0.4),
    )
    innovations = seqgp.Separable(
        time=seqgp.kernels.Matern12(lengthscale=dist.LogNormal(math.log(0.3), 0.7)),
        space=seqgp.kernels.SquaredExponential(
            lengthscale=[seqgp.ScaledSigmoid(max(0.25, low), 3.0) for low in spacings]
        ),
        scale=dist.LogNormal(math.log(0.06), 0.5),
    )
    return mean_surface + innovations


def leverage_prior() -> Any:
    """Volatility falls when the spot rises: of the level, for a move of the log spot by one."""
    return dist.Normal(-0.4, 0.4)


def stickiness_prior() -> Any:
    """Around sticky strike, from sticky moneyness to sticky local volatility."""
    return dist.Normal(0.6, 0.3)
