"""A run as one NetCDF file after the CF conventions: time series of stations, statistics and some draws.

The file has the dimensions ``time``, ``station`` and ``realization``. Draws of different times are independent samples:
realization ``k`` of one time does not continue realization ``k`` of another.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import extra
from seqgp.base.info import OnlineInfo
from seqgp.base.transforms import transform_of
from seqgp.io.errors import StoreError
from seqgp.io.naming import Naming, naming_of
from seqgp.io.records import Locations, location_names, locations_of
from seqgp.io.step import Step
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS, flat_parameters

with extra("io"):
    import xarray as xr

CONVENTIONS = "CF-1.11"
DRAWS = 200  # of each step, by default
SUFFIXES = dict(zip(STATISTICS, ("mean", "sd", "q2_5", "q25", "q50", "q75", "q97_5")))
GEOGRAPHIC = {
    "longitude": (("lon", "long", "longitude"), "degrees_east"),
    "latitude": (("lat", "latitude"), "degrees_north"),
}
COMPRESSED = {"zlib": True, "complevel": 4}


class _Layout(NamedTuple):
    """What all variables share."""

    steps: list[Step]
    locations: Locations
    stations: list[str]
    naming: Naming
    coordinates: str  # of a variable that stands at stations


def cf_dataset(store: Store, draws: int | None = DRAWS) -> xr.Dataset:
    """The dataset of a run: data, statistics of ``f`` at all times, and draws of ``f`` and the parameters.

    Args:
        store: the run.
        draws: of each step, evenly spread over those there are; all of them with ``None``, and none with 0.
    """
    steps = store.standing()
    if not steps:
        raise StoreError(f"{store.path}: the run has no step to export")
    section = store.manifest.section("data")
    naming = naming_of(section, steps[0].snapshot.x.shape[1])
    names = location_names(steps)
    locations = locations_of(steps, names)
    stations = names or [str(i) for i in range(locations.size)]
    inputs = _inputs(naming, steps[0].snapshot.x.shape[1])
    layout = _Layout(steps, locations, stations, naming, " ".join(["station_name", *inputs]))
    data = xr.Dataset(
        _statistics(layout) | _observed(layout, section) | _diagnostics(steps) | _drawn(layout, section, draws),
        _coordinates(layout, inputs),
        {
            "Conventions": CONVENTIONS,
            "featureType": "timeSeries",
            "title": str(store.manifest.section("run").get("title") or store.path.name),
            "source": f"seqgp {store.manifest.versions.get('seqgp')}",
            "history": f"run begun {store.manifest.created}",
            "comment": "realizations of different times are independent samples of their own posterior",
        },
    )
    for name, variable in data.variables.items():
        if variable.dtype.kind == "f":
            variable.encoding |= COMPRESSED | {"_FillValue": None if name in ("time", *inputs) else np.nan}
    return data


def _inputs(naming: Naming, dimension: int) -> list[str]:
    return [_safe(name) for name in naming.inputs or [f"x{d}" for d in range(dimension)]]


def _coordinates(layout: _Layout, inputs: list[str]) -> dict[str, Any]:
    """Time with its units, the names of stations, and where they are (at each time, if they move)."""
    times = np.array([step.t for step in layout.steps])
    found: dict[str, Any] = {"time": ("time", *_time(times, layout.naming))}
    words = {"cf_role": "timeseries_id", "long_name": layout.naming.location or "station"}
    found["station_name"] = ("station", np.array(layout.stations, dtype=object), words)
    at = np.stack(layout.locations.put([step.snapshot.x for step in layout.steps], axis=0))
    first = np.nanmin(at, axis=0)
    fixed = bool(np.all((at == first) | np.isnan(at)))
    for d, name in enumerate(inputs):
        values = ("station", first[:, d]) if fixed else (("time", "station"), at[:, :, d])
        found[name] = (*values, _of_input(name, d, (layout.naming.inputs or inputs)[d]))
    return found


def _of_input(name: str, number: int, column: str) -> dict[str, str]:
    for standard, (known, units) in GEOGRAPHIC.items():
        if name.lower() in known:
            return {"standard_name": standard, "units": units, "long_name": column}
    unit = re.search(r"[ _(\[](km|m)[)\]]?$", column)
    axis = {0: {"axis": "X"}, 1: {"axis": "Y"}}.get(number, {})
    return {"long_name": column, "units": unit.group(1) if unit else "1", **axis}


def _time(times: np.ndarray, naming: Naming) -> tuple[np.ndarray, dict[str, str]]:
    words = {"standard_name": "time", "long_name": naming.time or "time", "axis": "T"}
    if naming.origin is None:
        return times, {"long_name": words["long_name"], "units": "1", "axis": "T"}
    origin = datetime.datetime.fromisoformat(naming.origin)
    if origin.tzinfo is not None:
        origin = origin.astimezone(datetime.UTC).replace(tzinfo=None)
    unit, factor = ("days", 7.0) if naming.unit == "weeks" else (naming.unit, 1.0)
    return times * factor, words | {"units": f"{unit} since {origin.isoformat(' ')}", "calendar": "proleptic_gregorian"}


def _statistics(layout: _Layout) -> dict[str, Any]:
    found = {}
    for row, (statistic, suffix) in enumerate(SUFFIXES.items()):
        values = layout.locations.put([step.summary.latent[row] for step in layout.steps], axis=0)
        words = {"long_name": f"{statistic} of the posterior of the latent function f"}
        found[f"f_{suffix}"] = (("time", "station"), np.stack(values), words | {"coordinates": layout.coordinates})
    for name in flat_parameters(layout.steps[-1].summary.parameters):
        values = [flat_parameters(step.summary.parameters).get(name) for step in layout.steps]
        for statistic in ("mean", "sd"):
            row = STATISTICS.index(statistic)
            numbers = [np.nan if one is None else float(one[row]) for one in values]
            words = {"long_name": f"{statistic} of the posterior of {name}"}
            found[f"{_safe(name)}_{statistic}"] = ("time", np.array(numbers), words)
    return found


def _observed(layout: _Layout, section: Any) -> dict[str, Any]:
    if any(step.snapshot.y.shape != (len(step.snapshot.x),) for step in layout.steps):
        return {}
    transform = transform_of(section)
    data = [step.snapshot.y if transform is None else transform.restored(step.snapshot.y) for step in layout.steps]
    name = layout.naming.value or "y"
    words = {"long_name": name, "coordinates": layout.coordinates}
    taken = {"time", "station", "station_name", "f", "realization"} | {f"f_{one}" for one in SUFFIXES.values()}
    called = f"{_safe(name)}_data" if _safe(name) in taken else _safe(name)
    return {called: (("time", "station"), np.stack(layout.locations.put(data, axis=0)), words)}


def _diagnostics(steps: list[Step]) -> dict[str, Any]:
    infos = [step.info for step in steps]
    found = {"missing": ("time", np.array([info.missing for info in infos]), {"long_name": "number of missing data"})}
    if not all(isinstance(info, OnlineInfo) for info in infos):
        return found
    for name, words in (("ess", "effective number of particles"), ("log_evidence", "log evidence of the data so far")):
        found[name] = ("time", np.array([float(getattr(info, name)) for info in infos]), {"long_name": words})
    return found


def _drawn(layout: _Layout, section: Any, draws: int | None) -> dict[str, Any]:
    """Draws in single precision; NaN at steps that keep their summaries alone."""
    whole = [step.state if step.whole else None for step in layout.steps]
    most = max((state.draws for state in whole if state is not None), default=0)
    count = most if draws is None else min(draws, most)
    if count == 0:
        return {}
    transform = transform_of(section)
    latent = np.full((count, len(layout.steps), layout.locations.size), np.nan, np.float32)
    parameters: dict[str, np.ndarray] = {}
    for i, (state, rows) in enumerate(zip(whole, layout.locations.rows)):
        if state is None:
            continue
        chosen = np.linspace(0, state.draws - 1, min(count, state.draws)).round().astype(int)
        f = np.asarray(state.latent)[chosen]
        latent[: len(chosen), i, rows] = f if transform is None else transform.inverse(f)
        for name, values in flat_parameters({k: np.asarray(v) for k, v in state.parameters.items()}).items():
            whole_of = parameters.setdefault(name, np.full((count, len(layout.steps)), np.nan, np.float32))
            whole_of[: len(chosen), i] = values[chosen]
    words = {"long_name": "draws of the latent function f", "coordinates": layout.coordinates}
    found: dict[str, Any] = {"f": (("realization", "time", "station"), latent, words)}
    for name, values in parameters.items():
        found[_safe(name)] = (("realization", "time"), values, {"long_name": f"draws of {name}"})
    numbers = {"standard_name": "realization", "units": "1"}
    return found | {"realization": ("realization", np.arange(count, dtype=np.int32), numbers)}


def _safe(name: str) -> str:
    """A name of letters, digits and underscores, as the conventions recommend."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return found if found[:1].isalpha() else f"v_{found}"
