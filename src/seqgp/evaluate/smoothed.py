"""Smoothed predictions of data at past times and any inputs, as draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Key

from seqgp.base.snapshot import Context, Snapshot
from seqgp.evaluate.point_scores import DrawnData
from seqgp.likelihoods.base import fill_missing
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.samplers.online.sampler import OnlineSampler
from seqgp.samplers.online.smooth import smooth
from seqgp.samplers.online.state import OnlineState


def smoothed_marginals(
    key: Key[Array, ""], model: Model, state: OnlineState, data: Sequence[Snapshot], draws: int
) -> list[DrawnData]:
    """For each snapshot draws of its data given all data of the state, which need not hold any of them."""
    key_path, key_data = jax.random.split(key)
    few = state.thinned(draws)
    sampler = OnlineSampler(model, latent=state.settings["latent"], order=state.settings["order"])
    points = list(dict.fromkeys(tuple(row) for one in data for row in one.x.tolist()))
    number = {point: row for row, point in enumerate(points)}
    at = {one.t: [number[tuple(row)] for row in one.x.tolist()] for one in data}
    context = _everywhere(data, at, len(points))
    times = [one.t for one in data]
    paths = smooth(key_path, sampler, few, times, x=np.array(points), draws=few.draws, context=context)
    parameters = compiled(_parameters, model, np.asarray(few.z))[0]()
    found = []
    for i, (one, latent) in enumerate(zip(data, paths.latent)):
        model.likelihood.check_context(~np.isnan(one.y), one.context)
        keys = jax.random.split(jax.random.fold_in(key_data, i), few.draws)
        filled, _ = fill_missing(one.y)
        own = model.likelihood.context_at(one.t, one.context)
        y, log_densities = compiled(_data, model, own, keys, latent[:, at[one.t]], parameters, filled)[0]()
        found.append(DrawnData(np.asarray(y), np.asarray(log_densities)))
    return found


def _everywhere(data: Sequence[Snapshot], at: dict[float, list[int]], size: int) -> Any:
    """A function from a time to the context at all points: what a snapshot lacks is taken from another that has it.

    The predictions there are not used, so any number will do that is finite.
    """
    if all(one.context is None for one in data):
        return None
    own = {one.t: one for one in data}
    spare = {}
    for one in data:
        for name, value in (one.context or {}).items():
            column = spare.setdefault(name, np.zeros(size))
            if np.shape(value) == (len(one.x),):
                column[at[one.t]] = value

    def context(t: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in (own[t].context or {}).items():
            if np.shape(value) != (len(own[t].x),):
                found[name] = value
                continue
            found[name] = spare[name].copy()
            found[name][at[t]] = value
        return found

    return context


def _parameters(model: Model, z):
    return jax.vmap(model.parameters)(z)


def _data(model: Model, context: Context, keys, f, parameters, y):
    def one(key, f, parameters):
        distribution = model.likelihood.distribution(f, context, parameters)
        return jnp.asarray(distribution.sample(key), float), distribution.log_prob(y)

    return jax.vmap(one)(keys, f, parameters)
