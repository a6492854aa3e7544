"""From a snapshot to the arrays of a step: the window laid beside the present."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from seqgp.base.snapshot import Snapshot
from seqgp.fields.protocol import Latent
from seqgp.fields.sites import Sites, StepSites, Window
from seqgp.linalg.types import ArrayLike
from seqgp.mcmc.observed import observed_from
from seqgp.mcmc.problem import Problem
from seqgp.model import Model


def initial_problem(model: Model, representation: Latent, snapshot: Snapshot) -> tuple[Problem, Sites]:
    """The exact problem of the first snapshot: no window, the prior of ``z``."""
    size = len(snapshot.x)
    sites = representation.sites(snapshot.x, size)
    mean, covariance = model.prior_of_z()
    problem = Problem(
        mean=mean,
        covariance=covariance,
        times=np.array([snapshot.t]),
        x=sites.x[None],
        mask=sites.mask[None],
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
    )
    return problem, sites


def step_problem(
    model: Model,
    representation: Latent,
    moments: tuple[np.ndarray, np.ndarray],
    step_sites: StepSites,
    snapshot: Snapshot,
) -> Problem:
    """The problem of a step with the moments of ``z`` before it: the window's blocks before the present's."""
    sites, window, size = step_sites
    return Problem(
        mean=moments[0],
        covariance=moments[1],
        times=np.append(window.times, snapshot.t),
        x=np.concatenate([window.x, sites.x[None]]),
        mask=np.concatenate([window.mask, sites.mask[None]]),
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
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
