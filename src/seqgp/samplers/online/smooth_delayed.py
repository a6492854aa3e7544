"""The past of kernels with a delay: by dense algebra over all data, at any times and places.

Places have local times of their own, so the data of one time say something of the latent at others: the posterior at
all times and places asked for is drawn jointly from the kernel. Data that are not Gaussian go through EP, all of them
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, PyTree

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Context, Snapshot
from seqgp.linalg.factor import covariance_root, solve_lower
from seqgp.linalg.types import Array
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.samplers.online.layout import SiteLayout, observation_of
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation
from seqgp.statespace.update import approximate_update, gaussian_update

LARGEST = 6000  # points in time and space, of data and asked for


class Rows(NamedTuple):
    """Points in time and space, with what the mean needs there."""

    t: Float[np.ndarray, " K"]
    x: Float[np.ndarray, "K D"]
    columns: PyTree
    design: Float[np.ndarray, "K q"]


def draws_of_the_past(
    key: Key[Array, ""],
    ssm: StateSpaceModel,
    snapshots: Sequence[Snapshot],
    z: Float[np.ndarray, "draws d"],
    asked: Sequence[tuple[float, np.ndarray, Context]],
) -> list[Float[np.ndarray, "draws n"]]:
    """``f`` at times and inputs given all data, one joint draw for each value of the parameters.

    Args:
        key: a random key.
        ssm: the model.
        snapshots: the data.
        z: the values of the particles' parameters.
        asked: time, inputs and context of each.
    """
    seen = [one for one in snapshots if not np.isnan(one.y).all()]
    size = sum(len(one.y) for one in seen) + sum(len(x) for _, x, _ in asked)
    if size > LARGEST:
        raise SamplerError(
            f"smooth: with seqgp.Delayed, {size} points of data and asked for are more than {LARGEST}, which dense "
            "algebra allows; ask for fewer times or places, or give OnlineSampler history="
        )
    data, rows = _data(ssm, seen)
    wanted = _rows(ssm, asked)
    keys = jax.random.split(key, len(z))
    pieces = np.array_split(np.arange(len(z)), min(cores(), len(z)))
    tasks = [compiled(_draws, ssm, data, rows, wanted, keys[piece], z[piece])[0] for piece in pieces]
    found = np.concatenate([np.asarray(part) for part in in_threads(tasks)])
    return np.split(found, np.cumsum([len(x) for _, x, _ in asked])[:-1], axis=1)


def _data(ssm: StateSpaceModel, snapshots: Sequence[Snapshot]) -> tuple[Observation, Rows]:
    """All data as those of one snapshot."""
    each = []
    for one in snapshots:
        layout = SiteLayout(np.unique(one.x, axis=0), None, None, "")
        each.append(observation_of(ssm, layout, one, 0.0, None))

    def joined(*leaves):
        parts = [np.asarray(leaf) for leaf in leaves]
        return parts[0] if parts[0].ndim == 0 else np.concatenate(parts)

    whole = jax.tree.map(joined, *each)
    t = np.concatenate([np.full(len(one.x), one.t) for one in snapshots])
    return whole, Rows(t, np.concatenate([one.x for one in snapshots]), whole.columns, whole.design)


def _rows(ssm: StateSpaceModel, asked: Sequence[tuple[float, np.ndarray, Context]]) -> Rows:
    columns = [ssm.columns(t, x, context) for t, x, context in asked]
    whole = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *columns)
    t = np.concatenate([np.full(len(x), t) for t, x, _ in asked])
    return Rows(t, np.concatenate([x for _, x, _ in asked]), whole, np.asarray(ssm.design(whole)))


def _draws(ssm: StateSpaceModel, data: Observation, rows: Rows, wanted: Rows, keys, z):
    kernel, likelihood, n = ssm.model.kernel, ssm.model.likelihood, len(rows.t)
    t, x = jnp.concatenate([rows.t, wanted.t]), jnp.concatenate([rows.x, wanted.x])
    design = jnp.concatenate([rows.design, wanted.design]) * ssm.coefficient_scales()
    prepared, seen = kernel.prepare(t, x), jnp.asarray(data.seen)

    def one(inputs):
        key, z = inputs
        parameters = ssm.parameters(z)
        cov = kernel.covariance(prepared, parameters) + design @ design.T
        f = ssm.offset(parameters, rows.columns)
        f_cov = jnp.where(seen[:, None] & seen[None, :], cov[:n, :n], 0.0)
        if likelihood.conjugate:
            update = gaussian_update(likelihood.noise(data.context, parameters) ** 2, data, f, f_cov)
        else:
            update = approximate_update(likelihood, parameters, data, f, f_cov)
        cross = jnp.where(seen[None, :], cov[n:, :n], 0.0)
        half = solve_lower(update.root, update.scale[:, None] * cross.T)
        left = cov[n:, n:] - half.T @ half
        if update.growth is not None:
            more = cross @ update.growth
            left = left + more @ more.T
        mean = ssm.offset(parameters, wanted.columns) + cross @ update.slope
        return mean + covariance_root(0.5 * (left + left.T)) @ jax.random.normal(key, mean.shape, mean.dtype)

    return jax.lax.map(one, (keys, z))
