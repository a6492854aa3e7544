"""Snapshots side by side: what the non-sequential samplers share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot
from seqgp.fields.dense import Dense
from seqgp.fields.sites import Sites, widen_sites
from seqgp.mcmc.observed import observed_from
from seqgp.mcmc.problem import Problem
from seqgp.model import Model
from seqgp.samplers.validation import check_snapshot


class FullState(NamedTuple):
    """Draws of the latent function at all times and of the parameters, given all data."""

    times: tuple[float, ...]
    latent: tuple[Float[Array, "draws N"], ...]  # one per time: f_t + mean, what the likelihood sees
    parameters: dict[str, Array]
    z: Float[Array, "draws d"]
    fingerprint: str

    @property
    def draws(self) -> int:
        """The number of draws."""
        return self.z.shape[0]


def check_snapshots(
    model: Model, snapshots: Sequence[Snapshot] | Snapshot, design: bool = False
) -> tuple[Snapshot, ...]:
    """The snapshots as a tuple: at least one, in the order of time, of the same dimension, fit for the model.

    Of a ``design`` the values of ``y`` are those of no data, and need not fit.
    """
    found = (snapshots,) if isinstance(snapshots, Snapshot) else tuple(snapshots)
    if not found:
        raise DataError("snapshots: the list is empty, expected at least one seqgp.Snapshot")
    for snapshot in found:
        check_snapshot(model, snapshot, design)
    for last, snapshot in itertools.pairwise(found):
        if not snapshot.t > last.t:
            raise DataError(
                f"snapshots: t = {snapshot.t} is not after the last t = {last.t}; FullSampler takes all times at "
                "once: sort them, each time once, with late and corrected data in their places"
            )
        if snapshot.x.shape[1] != last.x.shape[1]:
            raise DataError(
                f"snapshots: x at t = {snapshot.t} has {snapshot.x.shape[1]} columns, but at t = {last.t} it has "
                f"{last.x.shape[1]}"
            )
    model.mean_function.check_varying(found)
    return found


def stacked_problem(model: Model, snapshots: Sequence[Snapshot]) -> tuple[Problem, list[Sites]]:
    """All snapshots as blocks of the present: the exact problem, without a window."""
    dense, size = Dense(), max(len(snapshot.x) for snapshot in snapshots)
    pointwise = model.likelihood.pointwise
    sites = [dense.sites(s.x, size) if pointwise else widen_sites(dense.sites(s.x, len(s.x)), size) for s in snapshots]
    observed = tuple(
        observed_from(model, s, places.observe, size if pointwise else len(s.x)) for s, places in zip(snapshots, sites)
    )
    mean, covariance = model.prior_of_z()
    problem = Problem(
        mean=jnp.asarray(mean),
        covariance=jnp.asarray(covariance),
        times=jnp.array([s.t for s in snapshots]),
        x=jnp.stack([places.x for places in sites]),
        mask=jnp.stack([places.mask for places in sites]),
        observed=observed,
        representation=dense,
    )
    return problem, sites


def f_at_data(
    model: Model, snapshots: Sequence[Snapshot], sites: Sequence[Sites], f0: np.ndarray, z: np.ndarray
) -> tuple[Float[Array, "draws N"], ...]:
    """``f`` at the data of each time, from its zero-mean part at the stacked sites."""
    blocks = jnp.asarray(f0).reshape(len(f0), len(snapshots), -1)
    return tuple(
        jax.vmap(places.observe)(blocks[:, i])[:, : len(snapshot.x)] + means_at(model, snapshot, z)
        for i, (snapshot, places) in enumerate(zip(snapshots, sites))
    )


def means_at(model: Model, snapshot: Snapshot, z: np.ndarray) -> Float[Array, "draws N"]:
    """The mean at the inputs of a snapshot, for each draw of the parameters."""
    design = jnp.asarray(model.mean_function.design(snapshot.t, snapshot.x, snapshot.context))
    return jax.vmap(lambda one: model.mean_function.value(model.parameters(one), design))(jnp.asarray(z))
