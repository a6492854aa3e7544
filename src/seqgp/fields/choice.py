"""Which representation a run uses: the one asked for, or, with ``"auto"``, one that suits inputs and kernel."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from seqgp.base.errors import SamplerError
from seqgp.base.validation import lacking
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid, SharedGrid
from seqgp.fields.knots import Knots
from seqgp.fields.protocol import Latent, LatentChoice
from seqgp.fields.sites import Window
from seqgp.kernels.spatial import Covariance
from seqgp.model import Model

DENSE_UP_TO = 400  # points a snapshot, for "auto"
KNOTS_UP_TO = 3  # columns of x: a grid of knots has that many axes


class AskedFor(NamedTuple):
    """A user's choice: it stays what it is."""

    latent: Latent | LatentChoice

    def begin(self, model: Model, x: np.ndarray) -> tuple[Latent, str]:
        """The representation for a run that begins with inputs ``x``, and why it was chosen."""
        if isinstance(self.latent, LatentChoice):
            return self.latent.resolve(model.kernel, x), "asked for"
        return self.latent, "asked for"

    def follow(self, model: Model, held: Latent, window: Window, x: np.ndarray) -> tuple[Latent, Window, str]:
        """The representation of the next step, the window in it, and why: as they are."""
        return held, window, "as before"


class Automatic:
    """``"auto"``: a grid where inputs form one, dense for few points, knots for many and a smooth kernel."""

    def begin(self, model: Model, x: np.ndarray) -> tuple[Latent, str]:
        """The representation for a run that begins with inputs ``x``, and why it was chosen."""
        kernel = model.kernel
        if len(kernel.terms()) > 1:
            return Dense(), "the kernel is a sum of separable terms"
        grid = Grid().resolve(kernel, x)
        if grid.axes is not None:
            return grid, "x is a product grid and the kernel a product over its axes"
        if len(x) <= DENSE_UP_TO:
            return Dense(), f"at most {DENSE_UP_TO} points, any inputs"
        if model.mean_function.covariates:
            return Dense(), "the mean has covariates, which are known at the data alone"
        if not model.likelihood.pointwise:
            return Dense(), "the likelihood sees all of the latent at once"
        if x.shape[1] > KNOTS_UP_TO:
            return Dense(), f"more than {KNOTS_UP_TO} columns of x: knots would be too many"
        space = kernel.terms()[0][1].space
        if isinstance(space, Covariance):
            return Dense(), "a kernel of one's own may be rough; where it is smooth, Knots() is faster for many points"
        if not space.smooth:
            return Dense(), "exact for a rough kernel; Knots(interpolation='cubic') is faster for many points"
        return Knots().resolve(kernel, x), f"a smooth kernel, and more than {DENSE_UP_TO} points"

    def follow(self, model: Model, held: Latent, window: Window, x: np.ndarray) -> tuple[Latent, Window, str]:
        """From dense to a grid once all inputs of window and present are the same, and back when they change."""
        if isinstance(held, SharedGrid):
            if held.accepts(x):
                return held, window, "as before"
            return Dense(), window, "the inputs have changed"
        if not isinstance(held, Dense) or len(model.kernel.terms()) > 1 or not _shares_inputs(window, x):
            return held, window, "as before"
        grid = Grid().resolve(model.kernel, x)
        order = np.argsort(grid.order)  # sites of the grid, in the order of the window
        known = np.asarray(window.mask.any(axis=1))
        trimmed = window._replace(
            x=np.repeat(grid.points[None], len(window.times), axis=0),
            mask=np.repeat(known[:, None], len(x), axis=1),
            f=jnp.asarray(window.f)[:, :, : len(x)][:, :, order],
        )
        return grid, trimmed, "the inputs are those of the time before"


def _shares_inputs(window: Window, x: np.ndarray) -> bool:
    """Whether all times of the window that are known have the inputs ``x``, in the same order."""
    n = len(x)
    return all(
        not mask.any() or (mask.sum() == n and mask[:n].all() and np.array_equal(sites[:n], x))
        for sites, mask in zip(window.x, window.mask)
    )


def choose_latent(latent: object) -> AskedFor | Automatic:
    """The choice that a user's ``latent=`` stands for: a name, a ready-made object, or one that keeps the protocol."""
    if isinstance(latent, str) and latent == "auto":
        return Automatic()
    if isinstance(latent, (Latent, LatentChoice)) and not isinstance(latent, type):
        return AskedFor(latent)
    raise SamplerError(
        f"latent = {latent!r}: expected 'auto', seqgp.Dense(), seqgp.Grid() or seqgp.Knots(…)" + lacking(Latent, latent)
    )
