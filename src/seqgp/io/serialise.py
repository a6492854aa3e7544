"""States and infos as arrays and JSON, and back: nothing that is read can run code.

A tree of named tuples, modules, dictionaries and arrays becomes a skeleton (JSON) and a dictionary of arrays. A class
is stored by its name and looked up among those registered here; its fields are set, its constructor is not called.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from seqgp.filtering.linearised import Linearisation
from seqgp.io.errors import DamagedError, StoreError
from seqgp.latents.dense import Dense
from seqgp.latents.grid import Grid, SharedGrid
from seqgp.latents.knots import KnotGrid, Knots
from seqgp.latents.sites import Window
from seqgp.online.cloud import Cloud
from seqgp.online.memory import CloudQuadratic, Memory
from seqgp.online.renewal import Renewal
from seqgp.online.state import OnlineState
from seqgp.online.surrogate import SnapshotSurrogate
from seqgp.samplers.info import Info, UpdateInfo
from seqgp.sequential.state import SequentialState

Arrays = dict[str, np.ndarray]

_classes: dict[str, type] = {}


def register(*classes: type) -> None:
    """Let states hold instances of these classes: named tuples, or Equinox modules made of arrays and numbers."""
    for cls in classes:
        if not (issubclass(cls, eqx.Module) or _is_named_tuple(cls)):
            raise StoreError(f"register: {cls.__name__} is neither a named tuple nor an Equinox module")
        if _classes.setdefault(cls.__name__, cls) is not cls:
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

    def inner(key: str, value: Any) -> Any:
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


def _encode_array(array: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    values = np.asarray(array)
    if values.dtype.hasobject:
        raise StoreError(f"{name}: an array of Python objects cannot be stored; use numbers or text")
    arrays[name] = values
    return {"$array": name, "device": isinstance(array, jax.Array)}


def _decode_class(skeleton: dict[str, Any], arrays: Any) -> Any:
    cls = _classes.get(skeleton["$class"])
    if cls is None:
        raise DamagedError(
            f"class {skeleton['$class']!r} is not known here: seqgp.io.serialise.register it before reading, or "
            "use the version of seqgp that wrote the run"
        )
    values = {key: decode(value, arrays) for key, value in skeleton["fields"].items()}
    if _is_named_tuple(cls):
        return _named_tuple(cls, values)
    instance = object.__new__(cls)
    for key, value in values.items():
        object.__setattr__(instance, key, value)
    return instance


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


register(OnlineState, Cloud, Memory, CloudQuadratic, Renewal, SnapshotSurrogate, Linearisation)
register(SequentialState, Window, Info, UpdateInfo, Dense, Grid, SharedGrid, Knots, KnotGrid)
_classes["State"] = SequentialState  # its name in runs written by version 0.1
