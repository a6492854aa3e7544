"""A run as an ArviZ ``DataTree``: chain, draw, time and location are named coordinates."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from seqgp.io.errors import StoreError
from seqgp.io.step import labels_of
from seqgp.io.store import Store
from seqgp.models.errors import extra
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.samplers.checks import check_state
from seqgp.samplers.info import Info
from seqgp.samplers.keys import stream
from seqgp.samplers.protocol import State

with extra("io"):
    import xarray as xr

PREDICTIVE_SEED = 0  # of the replicated data: the same run gives the same tree


class Record(NamedTuple):
    """A step in memory."""

    state: State
    info: Info
    snapshot: Snapshot
    labels: list[str] | None


def to_datatree(source: Any, model: Model | None = None) -> xr.DataTree:
    """A run for ArviZ, xarray, NetCDF and Zarr.

    Groups: ``posterior`` (``latent``, and every parameter in natural units), ``posterior_predictive`` (replicated data
    at the same inputs), ``sample_stats`` (per step: R-hat, ESS, seconds, evaluations), ``observed_data`` and
    ``constant_data`` (inputs, context). Where the number of locations changes, the rest is NaN.

    Args:
        source: a ``Run`` or a :class:`Store`; of a store, all steps that are kept whole.
        model: the model, for the replicated data; a store knows it where it is made of ready-made parts.
    """
    store = source if isinstance(source, Store) else source.store
    model = model or getattr(source, "model", None)
    records = _records(source, store)
    times = np.array([record.state.t for record in records])
    groups = {
        "posterior": _posterior(records),
        "sample_stats": _sample_stats([record.info for record in records]),
        "observed_data": _observed(records),
        "constant_data": _constant(records),
    }
    if model is not None:
        check_state(model, records[-1].state, "to_datatree")
        groups["posterior_predictive"] = _predictive(records, model)
    labels = _location_names(records)
    attributes = {"inference_library": "seqgp", "settings": json.dumps(records[-1].info.settings)}
    for name, group in groups.items():
        group = group.assign_coords(time=times)
        if "location" in group.dims:
            group = group.assign_coords(location=labels if labels is not None else np.arange(group.sizes["location"]))
        groups[name] = group.assign_attrs(attributes)
    return xr.DataTree.from_dict(groups)


def _records(source: Any, store: Store | None) -> list[Record]:
    if store is None:
        return [Record(source.state, source.infos[-1], source.snapshot, labels_of(source.snapshot))]
    records = [Record(step.state, step.info, step.snapshot, step.labels) for step in store if step.whole]
    if not records:
        raise StoreError(f"{store.path}: the run has no whole step to export")
    return records


def _stack(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """Stack along a new axis, padded with NaN to the largest shape."""
    arrays = [np.asarray(a, dtype=float) for a in arrays]
    shape = tuple(max(sizes) for sizes in zip(*(a.shape for a in arrays)))
    padded = [np.pad(a, [(0, full - n) for full, n in zip(shape, a.shape)], constant_values=np.nan) for a in arrays]
    return np.stack(padded, axis=axis)


def _chained(draws: Any, chains: int) -> np.ndarray:
    """``(draws, …)`` as ``(chain, draw, …)``."""
    values = np.asarray(draws)
    return values.reshape(chains, len(values) // chains, *values.shape[1:])


def _posterior(records: list[Record]) -> xr.Dataset:
    chains = records[-1].info.chains
    same = [record for record in records if record.info.chains == chains]
    if len(same) != len(records):
        raise StoreError("to_datatree: the steps have different numbers of chains; export them apart")

    def variable(values: list[Any], dims: tuple[str, ...], **attrs: str) -> xr.Variable:
        stacked = _stack([_chained(v, chains) for v in values], axis=2)
        return xr.Variable(("chain", "draw", "time", *dims), stacked, attrs)

    variables = {"latent": variable([r.state.latent for r in records], ("location",), long_name="level f + mean")}
    for name in records[-1].state.parameters:
        values = [record.state.parameters[name] for record in records]
        dims = tuple(f"{name}_dim_{i}" for i in range(np.ndim(values[0]) - 1))
        variables[name] = variable(values, dims, units="natural scale")
    data = xr.Dataset(variables)
    return data.assign_coords({dim: np.arange(size) for dim, size in data.sizes.items() if dim != "time"})


def _predictive(records: list[Record], model: Model) -> xr.Dataset:
    chains = records[-1].info.chains
    drawn = [_chained(_replicate(record, model), chains) for record in records]
    stacked = _stack(drawn, axis=2)
    dims = _data_dims(records)
    data = xr.Dataset({"y": xr.Variable(("chain", "draw", "time", *dims), stacked)})
    return data.assign_coords({dim: np.arange(size) for dim, size in data.sizes.items() if dim != "time"})


def _replicate(record: Record, model: Model) -> np.ndarray:
    """New data at the same inputs, one set per draw."""
    state = record.state
    snapshot = record.snapshot
    context = jax.tree.map(jnp.asarray, model.likelihood.context_at(snapshot.t, snapshot.context))
    key = jax.random.fold_in(stream(PREDICTIVE_SEED, "replicated data"), state.step)
    keys = jax.random.split(key, state.draws)
    return np.asarray(_new_data(model, context, keys, jnp.asarray(state.latent), jnp.asarray(state.z)))


@eqx.filter_jit
def _new_data(model: Model, context: Any, keys: Array, levels: Array, z: Array) -> Array:
    def one(key, level, z):
        distribution = model.likelihood.distribution(level, context, model.parameters(z))
        return jnp.asarray(distribution.sample(key), float)

    return jax.vmap(one)(keys, levels, z)


def _data_dims(records: list[Record]) -> tuple[str, ...]:
    snapshot = records[-1].snapshot
    if snapshot.y.shape == (len(snapshot.x),):
        return ("location",)
    return tuple(f"y_dim_{i}" for i in range(snapshot.y.ndim))


def _observed(records: list[Record]) -> xr.Dataset:
    stacked = _stack([record.snapshot.y for record in records], axis=0)
    return xr.Dataset({"y": xr.Variable(("time", *_data_dims(records)), stacked)})


def _constant(records: list[Record]) -> xr.Dataset:
    variables = {
        "x": xr.Variable(("time", "location", "dimension"), _stack([r.snapshot.x for r in records], axis=0)),
    }
    contexts = [_named_leaves(record.snapshot.context) for record in records]
    locations = [len(record.snapshot.x) for record in records]
    for name, leaf in contexts[-1].items():
        values = [context[name] for context in contexts if name in context]
        numeric = all(np.issubdtype(value.dtype, np.number) or value.dtype == bool for value in values)
        if len(values) != len(records) or not numeric or any(value.ndim != leaf.ndim for value in values):
            continue
        dims = [f"{name}_dim_{i}" for i in range(leaf.ndim)]
        if leaf.ndim and all(len(value) == n for value, n in zip(values, locations)):
            dims[0] = "location"
        variables[name] = xr.Variable(("time", *dims), _stack(values, axis=0))
    return xr.Dataset(variables)


def _named_leaves(context: Any) -> dict[str, np.ndarray]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(context)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    return {f"context.{name}" if name in ("", "x") else name: leaf for name, leaf in named.items()}


def _sample_stats(infos: list[Info]) -> xr.Dataset:
    columns: dict[str, list[float]] = {
        name: [float(getattr(info, name)) for info in infos]
        for name in ("seconds", "compile_seconds", "log_likelihood", "missing", "max_rhat", "min_ess")
    }
    for prefix, field in (("rhat", "rhat"), ("ess_bulk", "ess"), ("ess_tail", "ess_tail"), ("score", "scores")):
        for name in dict.fromkeys(name for info in infos for name in getattr(info, field)):
            columns[f"{prefix}.{name}"] = [float(getattr(info, field).get(name, np.nan)) for info in infos]
    for name in dict.fromkeys(name for info in infos for name in info.updates):
        found = [info.updates.get(name) for info in infos]
        columns[f"evaluations.{name}"] = [np.nan if u is None else u.evaluations_per_update for u in found]
        columns[f"capped.{name}"] = [np.nan if u is None else float(u.capped) for u in found]
    return xr.Dataset({name: xr.Variable(("time",), np.array(values)) for name, values in columns.items()})


def _location_names(records: list[Record]) -> list[str] | None:
    """The names of the locations, where all steps have the same."""
    first = records[0].labels
    if first is None or any(record.labels != first for record in records):
        return None
    return first
