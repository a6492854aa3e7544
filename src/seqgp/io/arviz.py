"""A run as an ArviZ ``DataTree``: chain, draw, time and location are named coordinates."""

from __future__ import annotations

import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from seqgp.base.errors import extra
from seqgp.base.info import ChainInfo, Info, OnlineInfo
from seqgp.base.snapshot import Context
from seqgp.base.transforms import Transform, transform_of
from seqgp.io.errors import StoreError
from seqgp.io.naming import Naming, naming_of
from seqgp.io.records import Locations, Record, location_names, locations_of
from seqgp.io.step import labels_of
from seqgp.io.store import Store
from seqgp.likelihoods.gaussian import RATIOS, STATION
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.keys import stream
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.validation import check_state

with extra("io"):
    import xarray as xr

PREDICTIVE_SEED = 0  # of the replicated data: the same run gives the same tree


def to_datatree(source: Any, model: Model | None = None) -> xr.DataTree:
    """A run as a tree of xarray datasets, for ArviZ, NetCDF and Zarr.

    Groups: ``posterior`` (``latent``, and every parameter in natural units), ``posterior_predictive`` (replicated data
    at the same inputs), ``sample_stats`` (per step: R-hat, ESS, seconds, evaluations), ``observed_data`` and
    ``constant_data`` (inputs, context). With names, a location is a named place, with NaN at times without it. Without
    names, it is the number of a row, whose inputs are ``constant_data/x``. If times are dates in the run's table,
    ``date`` is a coordinate beside ``time``. Latent and data are in the units of the run's table; if
    it transforms them, parameters are those of the model for the transformed data.

    Args:
        source: a ``Run`` or a ``Store``; from a store, all steps that it keeps complete.
        model: the model, for the replicated data; a store knows it if all its parts are ready-made.
    """
    store = source if isinstance(source, Store) else source.store
    model = model or getattr(source, "model", None)
    records = _records(source, store)
    names = location_names(records)
    locations = locations_of(records, names)
    section = {} if store is None else store.manifest.section("data")
    naming, transform = naming_of(section, records[-1].snapshot.x.shape[1]), transform_of(section)
    times = _times([record.state.t for record in records], naming)
    groups = {
        "posterior": _posterior(records, locations, transform),
        "sample_stats": _sample_stats([record.info for record in records]),
        "observed_data": _observed(records, locations, naming, transform),
        "constant_data": _constant(records, locations, naming),
    }
    if model is not None:
        check_state(model, records[-1].state, "to_datatree")
        groups["posterior_predictive"] = _predictive(records, locations, model, transform)
    attributes = {"inference_library": "seqgp", "settings": json.dumps(records[-1].info.settings)}
    for name, group in groups.items():
        group = group.assign_coords(times)
        if "location" in group.dims:
            group = group.assign_coords(location=names if names is not None else np.arange(locations.size))
        groups[name] = group.assign_attrs(attributes)
    return xr.DataTree.from_dict(groups)


def _times(times: list[float], naming: Naming) -> dict[str, Any]:
    """The coordinate of time, and beside it the dates (in UTC, where the table's have a zone)."""
    attributes = {} if naming.time is None else {"long_name": naming.time}
    found: dict[str, Any] = {"time": ("time", np.array(times), attributes)}
    dates = naming.dates(times)
    if dates is not None:
        found["date"] = ("time", np.array([date.split("+")[0] for date in dates], dtype="datetime64[us]"), attributes)
    return found


def _records(source: Any, store: Store | None) -> list[Record]:
    if store is None:
        return [Record(source.state, source.infos[-1], source.snapshot, labels_of(source.snapshot))]
    records = [Record(step.state, step.info, step.snapshot, step.labels) for step in store.standing() if step.whole]
    if not records:
        raise StoreError(f"{store.path}: the run has no whole step to export")
    return records


def _stack(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """Stack along a new axis, padded with NaN to the largest shape."""
    arrays = [np.asarray(a, dtype=float) for a in arrays]
    shape = tuple(max(sizes) for sizes in zip(*(a.shape for a in arrays)))
    if not shape:  # numbers
        return np.stack(arrays, axis=axis)
    padded = [np.pad(a, [(0, full - n) for full, n in zip(shape, a.shape)], constant_values=np.nan) for a in arrays]
    return np.stack(padded, axis=axis)


def _chains(record: Record) -> int:
    """Particles are one chain: their draws are independent of one another."""
    return record.info.chains if isinstance(record.info, ChainInfo) else 1


def _chained(draws: object, chains: int) -> np.ndarray:
    """``(draws, …)`` as ``(chain, draw, …)``."""
    values = np.asarray(draws)
    return values.reshape(chains, len(values) // chains, *values.shape[1:])


def _back(values: Any, transform: Transform | None) -> np.ndarray:
    """Draws in the units of the run's table."""
    return np.asarray(values) if transform is None else transform.inverse(values)


def _posterior(records: list[Record], locations: Locations, transform: Transform | None) -> xr.Dataset:
    chains = _chains(records[-1])
    same = [record for record in records if _chains(record) == chains]
    if len(same) != len(records):
        raise StoreError("to_datatree: the steps have different numbers of chains; export them apart")

    def variable(values: list[Any], dims: tuple[str, ...], **attrs: str) -> xr.Variable:
        stacked = _stack([_chained(v, chains) for v in values], axis=2)
        return xr.Variable(("chain", "draw", "time", *dims), stacked, attrs)

    latent = locations.put([_back(record.state.latent, transform) for record in records], axis=1)
    variables = {"latent": variable(latent, ("location",), long_name="latent function f")}
    for name in records[-1].state.parameters:
        values = [record.state.parameters[name] for record in records]
        dims = tuple(f"{name}_dim_{i}" for i in range(np.ndim(values[0]) - 1))
        variables[name] = variable(values, dims, units="natural scale")
    data = xr.Dataset(variables)
    return data.assign_coords({dim: np.arange(size) for dim, size in data.sizes.items() if dim != "time"})


def _predictive(records: list[Record], locations: Locations, model: Model, transform: Transform | None) -> xr.Dataset:
    chains = _chains(records[-1])
    dims = _data_dims(records)
    drawn = [_back(_replicate(record, model), transform) for record in records]
    drawn = locations.put(drawn, axis=1) if dims == ("location",) else drawn
    stacked = _stack([_chained(draws, chains) for draws in drawn], axis=2)
    data = xr.Dataset({"y": xr.Variable(("chain", "draw", "time", *dims), stacked)})
    return data.assign_coords({dim: np.arange(size) for dim, size in data.sizes.items() if dim != "time"})


def _replicate(record: Record, model: Model) -> np.ndarray:
    """New data at the same inputs, one set per draw."""
    state = record.state
    snapshot = record.snapshot
    context = jax.tree.map(jnp.asarray, model.likelihood.context_at(snapshot.t, snapshot.context))
    key = jax.random.fold_in(stream(PREDICTIVE_SEED, "replicated data"), state.step)
    keys = jax.random.split(key, state.draws)
    noise = None
    if model.likelihood.by_station:
        context, noise = {**(context or {}), STATION: np.arange(len(snapshot.x))}, _station_noise(state, snapshot.x)
    return np.asarray(_new_data(model, context, keys, jnp.asarray(state.latent), jnp.asarray(state.z), noise))


def _station_noise(state: State, x: np.ndarray) -> np.ndarray:
    """Of each draw, at the inputs of the last snapshot."""
    assert isinstance(state, OnlineState), "no other sampler takes a model with a noise for each station"
    assert state.station_noise is not None
    return state.station_noise.at(x)


@eqx.filter_jit
def _new_data(model: Model, context: Context, keys: Array, f: Array, z: Array, noise: object) -> Array:
    def one(key, f, z, noise):
        parameters = model.parameters(z)
        if noise is not None:  # of each station
            parameters |= {RATIOS: (parameters["noise"] / noise) ** 2}
        distribution = model.likelihood.distribution(f, context, parameters)
        return jnp.asarray(distribution.sample(key), float)

    return jax.vmap(one)(keys, f, z, noise)


def _data_dims(records: list[Record]) -> tuple[str, ...]:
    snapshots = [record.snapshot for record in records]
    if all(snapshot.y.shape == (len(snapshot.x),) for snapshot in snapshots):
        return ("location",)
    return tuple(f"y_dim_{i}" for i in range(snapshots[-1].y.ndim))


def _observed(records: list[Record], locations: Locations, naming: Naming, transform: Transform | None) -> xr.Dataset:
    dims, data = _data_dims(records), [record.snapshot.y for record in records]
    data = data if transform is None else [transform.restored(y) for y in data]
    stacked = _stack(locations.put(data, axis=0) if dims == ("location",) else data, axis=0)
    attributes = {} if naming.value is None else {"long_name": naming.value}
    return xr.Dataset({"y": xr.Variable(("time", *dims), stacked, attributes)})


def _constant(records: list[Record], locations: Locations, naming: Naming) -> xr.Dataset:
    inputs = np.stack(locations.put([record.snapshot.x for record in records], axis=0))
    variables = {"x": xr.Variable(("time", "location", "dimension"), inputs)}
    contexts = [_named_leaves(record.snapshot.context) for record in records]
    sizes = [len(record.snapshot.x) for record in records]
    for name, leaf in contexts[-1].items():
        values = [context[name] for context in contexts if name in context]
        numeric = all(np.issubdtype(value.dtype, np.number) or value.dtype == bool for value in values)
        if len(values) != len(records) or not numeric or any(value.ndim != leaf.ndim for value in values):
            continue
        dims = [f"{name}_dim_{i}" for i in range(leaf.ndim)]
        if leaf.ndim and all(len(value) == n for value, n in zip(values, sizes)):
            dims[0], values = "location", locations.put(values, axis=0)
        variables[name] = xr.Variable(("time", *dims), _stack(values, axis=0))
    data = xr.Dataset(variables)
    return data if naming.inputs is None else data.assign_coords(dimension=naming.inputs)


def _named_leaves(context: Context) -> dict[str, np.ndarray]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(context)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    return {f"context.{name}" if name in ("", "x") else name: leaf for name, leaf in named.items()}


def _sample_stats(infos: list[Info]) -> xr.Dataset:
    columns: dict[str, list[float]] = {
        name: [float(getattr(info, name)) for info in infos]
        for name in ("seconds", "compile_seconds", "missing", "min_ess", *_own_figures(infos))
    }
    chains = [info for info in infos if isinstance(info, ChainInfo)]
    tables = {"score": [info.scores for info in infos]}
    if len(chains) == len(infos):
        tables |= {"rhat": [info.rhat for info in chains], "ess_bulk": [info.ess for info in chains]}
        tables |= {"ess_tail": [info.ess_tail for info in chains]}
    for prefix, table in tables.items():
        for name in dict.fromkeys(name for row in table for name in row):
            columns[f"{prefix}.{name}"] = [float(row.get(name, np.nan)) for row in table]
    updates = [info.updates if isinstance(info, ChainInfo) else {} for info in infos]
    for name in dict.fromkeys(name for row in updates for name in row):
        found = [row.get(name) for row in updates]
        columns[f"evaluations.{name}"] = [np.nan if u is None else u.evaluations_per_update for u in found]
        columns[f"capped.{name}"] = [np.nan if u is None else float(u.capped) for u in found]
    return xr.Dataset({name: xr.Variable(("time",), np.array(values)) for name, values in columns.items()})


def _own_figures(infos: list[Info]) -> tuple[str, ...]:
    """The figures of one kind of sampler, where all steps are of it."""
    if all(isinstance(info, OnlineInfo) for info in infos):
        return ("ess", "log_evidence", "log_evidence_se")
    return ("log_likelihood", "max_rhat") if all(isinstance(info, ChainInfo) for info in infos) else ()
