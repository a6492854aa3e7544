"""Where the latent lives: sites at one time, sites over the window, and how both are padded."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.types import Array, ArrayLike


class Observe(NamedTuple):
    """From the sites to the data: a choice of sites, or interpolation from them."""

    index: np.ndarray | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: np.ndarray | None = None

    def __call__(self, sites: Float[Array, " S *k"]) -> Float[Array, " N *k"]:
        """The latent at the data: ``sites[index]``, or ``weights @ sites``."""
        if self.weights is not None:
            return jnp.asarray(self.weights) @ sites
        return sites if self.index is None else sites[self.index]


class Sites(NamedTuple):
    """Where the latent lives at one time, and how the data see it."""

    x: np.ndarray  # (S, D)
    mask: np.ndarray  # (S,): False where a site is only padding
    observe: Observe


class Window(NamedTuple):
    """The last ``tau`` times with their sites, and the draws of the latent there.

    ``f`` is its zero-mean part here: add ``parameters["mean"]`` of the same draw for all of it.
    """

    times: np.ndarray  # (tau,)
    x: np.ndarray  # (tau, S, D)
    mask: np.ndarray  # (tau, S): False where a site is only padding, or the window not yet full
    f: Float[ArrayLike, "draws tau S"]


class StepSites(NamedTuple):
    """The sites of a step: those of the present, and the window with the same number of them at each time."""

    sites: Sites
    window: Window
    data: int  # how many data points the step is compiled for: those there are, and padding


def padded_size(pointwise: bool, n: int, previous: int | None) -> int:
    """How many data points to compile for: the last size while it fits and is not wasteful, else a round one.

    A likelihood that is not pointwise sees all of the latent at once, so nothing may be added to it.
    """
    if not pointwise or previous is None or n == previous:
        return n
    return previous if previous // 2 <= n <= previous else round_size(n)


def round_size(n: int) -> int:
    """The least of 8, 16, 24, 32, 48, 64, 96, 128, … that is not below ``n``: each of them is a compilation."""
    power = 2 ** max(3, int(np.ceil(np.log2(max(n, 1)))))
    return 3 * power // 4 if power >= 32 and n <= 3 * power // 4 else power


def pad_rows(leaf: np.ndarray, n: int, size: int) -> np.ndarray:
    """The last row repeated, where there is one for each of ``n`` data points."""
    if leaf.ndim == 0 or leaf.shape[0] != n:
        return leaf
    return np.concatenate([leaf, np.repeat(leaf[-1:], size - n, axis=0)])


def widen_sites(sites: Sites, size: int) -> Sites:
    """Sites padded beyond the data, which then choose their own among them."""
    n = len(sites.mask)
    if size == n:
        return sites
    return Sites(pad_rows(sites.x, n, size), np.arange(size) < n, sites.observe._replace(index=np.arange(n)))


def widen_window(window: Window, slots: int) -> Window:
    """The window with more (masked) sites per time; or fewer, where those dropped were only padding."""
    have = window.x.shape[1]
    if slots == have:
        return window
    if slots < have:
        return window._replace(x=window.x[:, :slots], mask=window.mask[:, :slots], f=np.asarray(window.f)[:, :, :slots])
    extra = slots - have
    return window._replace(
        x=np.pad(window.x, ((0, 0), (0, extra), (0, 0))),
        mask=np.pad(window.mask, ((0, 0), (0, extra))),
        f=np.pad(np.asarray(window.f), ((0, 0), (0, 0), (0, extra))),  # by NumPy: JAX would compile it
    )


def first_window(tau: int, t: float, sites: Sites, f: Float[ArrayLike, "draws S"]) -> Window:
    """A window of ``tau`` times of which only the last is known."""
    empty = tau - 1
    spread = np.arange(tau, 0, -1.0)  # any distinct times will do where nothing is known
    return Window(
        times=np.append(t - spread[:empty] - 1.0, t) if empty else np.array([t]),
        x=np.concatenate([np.repeat(sites.x[None], empty, axis=0), sites.x[None]]),
        mask=np.concatenate([np.zeros((empty, len(sites.mask)), bool), sites.mask[None]]),
        f=np.concatenate([np.zeros((f.shape[0], empty, f.shape[1])), np.asarray(f)[:, None, :]], axis=1),
    )
