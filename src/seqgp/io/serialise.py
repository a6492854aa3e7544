"""States and infos as arrays and JSON, and back: nothing that is read can run code.

A tree of named tuples, modules, dictionaries and arrays becomes a skeleton (JSON) and a dictionary of arrays. A class
is stored by its name and looked up among those registered here; its fields are set, its constructor is not called.
"""

from __future__ import annotations

import math
import re
from typing import Any

import equinox as eqx
import jax
import numpy as np

from seqgp.base.flags import StationFlag
from seqgp.base.info import (
    ChainInfo,
    Exactness,
    ForecastValues,
    LeaveOneOut,
    OnlineInfo,
    StationInfo,
    UpdateInfo,
    info_of_version_0_2,
)
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid, SharedGrid
from seqgp.fields.knots import KnotGrid, Knots
from seqgp.fields.sites import Window
from seqgp.io.errors import DamagedError, StoreError
from seqgp.monitoring.detectors import Detectors, ShiryaevRoberts
from seqgp.monitoring.monitor import Monitor
from seqgp.samplers.ibis import Particles, Rejuvenation
from seqgp.samplers.online.exact import Correction
from seqgp.samplers.online.pending import PendingParticles
from seqgp.samplers.online.quadratics import LinearisedSnapshot, Memory, QuadraticFit
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.online.stations import StationNoise
from seqgp.samplers.online.watch import Treatment, Watch
from seqgp.samplers.proposals import StudentProposal
from seqgp.samplers.sequential.state import SequentialState
from seqgp.statespace.linearise import Linearisation

Arrays = dict[str, np.ndarray]

_classes: dict[str, type] = {}

# What earlier versions wrote under other names: classes, and fields of a class by the name that it was stored under.
_RENAMED = {
    "State": "SequentialState",
    "Bank": "ShiryaevRoberts",
    "Cloud": "Particles",
    "CloudQuadratic": "QuadraticFit",
    "Renewal": "Rejuvenation",
    "SnapshotSurrogate": "LinearisedSnapshot",
}
_RENAMED_FIELDS = {
    "Cloud": {"log_evidence": "log_evidences", "last": "log_increment"},
    "OnlineState": {"cloud": "particles", "born": "evaluated_at", "surrogates": "linearised_snapshots"},
    "Renewal": {"effective": "ess"},
}


def register(*classes: type) -> None:
    """Let states hold instances of these classes: named tuples, or Equinox modules made of arrays and numbers."""
    for cls in classes:
        if not (issubclass(cls, eqx.Module) or _is_named_tuple(cls)):
            raise StoreError(f"register: {cls.__name__} is neither a named tuple nor an Equinox module")
        if cls.__name__ in _RENAMED or _classes.setdefault(cls.__name__, cls) is not cls:
            raise StoreError(f"register: another class is called {cls.__name__} already; choose another name")


def registered() -> list[str]:
    """The names of the classes that a state may hold."""
    return sorted(_classes)


def encode(tree: Any, name: str, arrays: Arrays, lenient: bool = False) -> Any:
    """The skeleton of a tree; its arrays are added to ``arrays`` under names that begin with ``name``.

    Args:
        tree: what to store.
        name: a prefix for the arrays' names.
        arrays: where the arrays go.
        lenient: whether something unknown is stored as its text (infos) rather than refused (states).
    """
    if tree is None or isinstance(tree, (bool, str)):
        return tree
    if isinstance(tree, (int, np.integer)):
        return int(tree)
    if isinstance(tree, (float, np.floating)):
        return float(tree) if math.isfinite(tree) else {"$float": repr(float(tree))}
    if isinstance(tree, (np.ndarray, jax.Array)):
        return _encode_array(tree, name, arrays)

    def inner(key: str, value: object) -> Any:
        return encode(value, f"{name}/{key}", arrays, lenient)

    if type(tree) in _classes.values():
        fields = tree._fields if _is_named_tuple(type(tree)) else vars(tree)
        return {"$class": type(tree).__name__, "fields": {key: inner(key, getattr(tree, key)) for key in fields}}
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        return {"$dict": {key: inner(key, value) for key, value in tree.items()}}
    if type(tree) in (tuple, list):
        return {f"${type(tree).__name__}": [inner(str(i), value) for i, value in enumerate(tree)]}
    if lenient:
        return str(tree)
    raise StoreError(
        f"{name}: a {type(tree).__name__} cannot be stored; make it of arrays, numbers and text, or "
        "seqgp.io.serialise.register its class"
    )


def decode(skeleton: Any, arrays: Any) -> Any:
    """The tree again; ``arrays`` maps names to arrays (and may read them only when asked)."""
    if not isinstance(skeleton, dict):
        return skeleton
    if "$float" in skeleton:
        return float(skeleton["$float"])
    if "$array" in skeleton:
        array = arrays[skeleton["$array"]]
        return jax.device_put(array) if skeleton.get("device") else array
    if "$dict" in skeleton:
        return {key: decode(value, arrays) for key, value in skeleton["$dict"].items()}
    if "$tuple" in skeleton:
        return tuple(decode(value, arrays) for value in skeleton["$tuple"])
    if "$list" in skeleton:
        return [decode(value, arrays) for value in skeleton["$list"]]
    if "$class" in skeleton:
        return _decode_class(skeleton, arrays)
    raise DamagedError(f"an entry with keys {sorted(skeleton)} is not one that seqgp writes")


def _encode_array(array: object, name: str, arrays: Arrays) -> dict[str, Any]:
    values = np.asarray(array)
    if values.dtype.hasobject:
        raise StoreError(f"{name}: an array of Python objects cannot be stored; use numbers or text")
    arrays[name] = values
    return {"$array": name, "device": isinstance(array, jax.Array)}


def _decode_class(skeleton: dict[str, Any], arrays: object) -> Any:
    name = str(skeleton["$class"])
    if name == "Info":
        return info_of_version_0_2({key: decode(value, arrays) for key, value in skeleton["fields"].items()})
    cls = _classes.get(_RENAMED.get(name, name))
    if cls is None:
        raise DamagedError(
            f"class {name!r} is not known here: seqgp.io.serialise.register it before reading, or "
            "use the version of seqgp that wrote the run"
        )
    renamed = _RENAMED_FIELDS.get(name, {})
    stored: dict[str, Any] = skeleton["fields"]
    values = {renamed.get(key, key): decode(value, arrays) for key, value in stored.items()}
    if _is_named_tuple(cls):
        check_fields(cls, values)
        return _named_tuple(cls, values)
    instance = object.__new__(cls)
    for key, value in values.items():
        object.__setattr__(instance, key, value)
    return instance


_KINDS = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "dict": (dict,), "Mapping": (dict,),
          "tuple": (tuple,), "list": (list,), "None": (type(None),)}  # fmt: skip
_HELD = re.compile(r"(?:dict|Mapping)\[str, ([^,]+)\]|tuple\[([^,]+), \.\.\.\]")
_ARRAY = re.compile(r"(?:Float|Int|Bool|Shaped)\[[^,\]]+, *[\"'] ?([^\"']*)[\"']\]")


def check_fields(cls: Any, values: dict[str, Any]) -> None:
    """Raise where a field of a named tuple is not of the kind that its annotation says, as far as that is plain."""
    for name, value in values.items():
        text = cls.__annotations__.get(name, "Any")
        text = getattr(text, "__forward_arg__", text)  # as a named tuple keeps what is annotated as text
        if isinstance(text, str) and not _fits(text, value):
            found = f"{type(value).__name__} {shape_of(value)}".strip()
            raise DamagedError(f"{cls.__name__}.{name}: expected {text}, found {found}")


def _fits(text: str, value: Any) -> bool:
    """Whether a value may be what an annotation says; one that is not understood fits."""
    array = _ARRAY.fullmatch(text)
    if array is not None:
        sizes = array.group(1).split()
        known = not any(size.startswith(("*", "...", "#")) for size in sizes)
        return hasattr(value, "dtype") and value.dtype.kind in "fiub" and (not known or value.ndim == len(sizes))
    parts = [part.strip() for part in text.split(" | ")]
    if len(parts) > 1 and "[" not in text.replace("dict[", "").replace("tuple[", ""):
        return any(_fits(part, value) for part in parts)
    plain = text.split("[")[0].strip()
    held = _HELD.fullmatch(text)
    if held is not None:
        if not isinstance(value, _KINDS[plain]):
            return False
        inside = value.values() if isinstance(value, dict) else value
        return all(_fits(held.group(1) or held.group(2), one) for one in inside)
    if plain in ("ArrayLike", "np.ndarray"):
        return hasattr(value, "dtype") and value.dtype.kind in "fiub"
    if plain in _KINDS:
        return isinstance(value, _KINDS[plain]) and (plain == "bool" or not isinstance(value, bool))
    return isinstance(value, _classes[plain]) if plain in _classes else True


def shape_of(value: Any) -> str:
    """The shape of an array, in words; empty for anything else."""
    return f"of shape {value.shape}" if hasattr(value, "shape") else ""


def _named_tuple(cls: Any, values: dict[str, Any]) -> Any:
    unknown = set(values) - set(cls._fields)
    missing = set(cls._fields) - set(values) - set(cls._field_defaults)
    if unknown or missing:
        raise DamagedError(
            f"{cls.__name__} was stored with other fields ({', '.join(sorted(unknown | missing))}): the run is of "
            "another version of seqgp; read it with that one"
        )
    return cls(**values)


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


register(Correction, Exactness, Memory, OnlineState, Particles, PendingParticles, QuadraticFit, Rejuvenation)
register(Linearisation, LinearisedSnapshot, StationNoise, StudentProposal)
register(ShiryaevRoberts, Detectors, ForecastValues, Monitor, StationFlag, StationInfo, Treatment, Watch)
register(
    SequentialState, Window, OnlineInfo, LeaveOneOut, ChainInfo, UpdateInfo, Dense, Grid, SharedGrid, Knots, KnotGrid
)
