"""From a snapshot to arrays: checks at the boundary, padding, and the window laid beside the present."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from seqgp.latents.protocol import Sites
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.target.carry import Carried

if TYPE_CHECKING:
    from seqgp.sequential.state import SequentialState
from seqgp.target.carry import Window
from seqgp.target.observed import observed_from, padded_size
from seqgp.target.problem import Problem


def initial_problem(model: Model, representation: Any, snapshot: Snapshot) -> tuple[Problem, Sites]:
    """The exact problem of the first snapshot: no window, the prior of ``z``."""
    size = padded_size(model, len(snapshot.x), None)
    sites = representation.sites(snapshot.x, size)
    problem = Problem(
        carried=Carried(*model.prior_of_z(), shared=None),
        times=np.array([snapshot.t]),
        x=sites.x[None],
        mask=sites.mask[None],
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
    )
    return problem, sites


def step_sites(model: Model, state: SequentialState, snapshot: Snapshot) -> tuple[Sites, Window, int]:
    """The sites of a later snapshot, and the window padded so that both have the same number."""
    latent = state.representation
    slots = state.window.x.shape[1]
    if hasattr(latent, "axes"):  # fixed sites: only the data are padded
        same = len(snapshot.x) == state.latent.shape[1]
        size = padded_size(model, len(snapshot.x), None if same else 0)
        return latent.sites(snapshot.x, size), state.window, size
    needed = int(np.flatnonzero(state.window.mask.any(axis=0))[-1]) + 1
    size = max(padded_size(model, len(snapshot.x), slots), needed)
    if model.likelihood.pointwise:
        sites = latent.sites(snapshot.x, size)
    else:
        sites = widen_sites(latent.sites(snapshot.x, len(snapshot.x)), size)
    return sites, widen_window(state.window, size), size if model.likelihood.pointwise else len(snapshot.x)


def widen_sites(sites: Sites, size: int) -> Sites:
    """Sites padded beyond the data, which then choose their own among them."""
    n = len(sites.mask)
    if size == n:
        return sites
    x = np.concatenate([sites.x, np.repeat(sites.x[-1:], size - n, axis=0)])
    return Sites(x, np.arange(size) < n, sites.observe._replace(index=np.arange(n)))


def widen_window(window: Window, slots: int) -> Window:
    """The window with more (masked) sites per time; or fewer, where those dropped were only padding."""
    have = window.x.shape[1]
    if slots == have:
        return window
    if slots < have:
        return window._replace(x=window.x[:, :slots], mask=window.mask[:, :slots], f=window.f[:, :, :slots])
    extra = slots - have
    return window._replace(
        x=np.pad(window.x, ((0, 0), (0, extra), (0, 0))),
        mask=np.pad(window.mask, ((0, 0), (0, extra))),
        f=jnp.pad(window.f, ((0, 0), (0, 0), (0, extra))),
    )


def step_problem(
    model: Model,
    representation: Any,
    carried: Carried,
    window: Window,
    sites: Sites,
    snapshot: Snapshot,
    size: int,
) -> Problem:
    """The problem of a step: the window's blocks before the present's."""
    return Problem(
        carried=carried,
        times=np.append(window.times, snapshot.t),
        x=np.concatenate([window.x, sites.x[None]]),
        mask=np.concatenate([window.mask, sites.mask[None]]),
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
    )


def first_window(tau: int, t: float, sites: Sites, f: np.ndarray) -> Window:
    """A window of ``tau`` times of which only the last is known."""
    empty = tau - 1
    spread = np.arange(tau, 0, -1.0)  # any distinct times will do where nothing is known
    return Window(
        times=np.append(t - spread[:empty] - 1.0, t) if empty else np.array([t]),
        x=np.concatenate([np.repeat(sites.x[None], empty, axis=0), sites.x[None]]),
        mask=np.concatenate([np.zeros((empty, len(sites.mask)), bool), sites.mask[None]]),
        f=jnp.concatenate([jnp.zeros((f.shape[0], empty, f.shape[1])), jnp.asarray(f)[:, None, :]], axis=1),
    )
