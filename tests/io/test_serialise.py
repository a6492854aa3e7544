"""Every representation that a state can hold is known to the store, and comes back equal."""

import importlib
import inspect
import math
import pkgutil
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import seqgp.fields
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.serialise import decode, encode, register, registered


def test_trees_come_back_with_their_types():
    tree = {"a": (1, 2.5, None, True), "b": [math.inf, "text"], "c": {"d": np.arange(3), "e": jnp.ones((2, 0))}}
    arrays = {}
    back = decode(encode(tree, "tree", arrays), arrays)
    assert back["a"] == tree["a"]
    assert back["b"] == tree["b"]
    assert isinstance(back["c"]["d"], np.ndarray)
    assert isinstance(back["c"]["e"], jnp.ndarray)
    assert back["c"]["e"].shape == (2, 0)


def test_all_representations_are_registered():
    for module in pkgutil.iter_modules(seqgp.fields.__path__, "seqgp.fields."):
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if (
                callable(getattr(cls, "sites", None))
                and issubclass(cls, eqx.Module)
                and cls.__module__ == module.name
                and not getattr(cls, "_is_protocol", False)
                and not inspect.isabstract(cls)  # what others are made from is in no state
            ):
                assert name in registered(), f"seqgp.io.serialise: register {name}"


def test_what_is_unknown_is_refused_when_written_and_when_read():
    with pytest.raises(StoreError, match="a set cannot be stored"):
        encode({"a": {1, 2}}, "state", {})
    assert encode({"a": {1}}, "info", {}, lenient=True) == {"$dict": {"a": "{1}"}}
    with pytest.raises(DamagedError, match="class 'Popen' is not known"):
        decode({"$class": "Popen", "fields": {"args": "ls"}}, {})
    with pytest.raises(DamagedError, match="other fields"):
        decode({"$class": "Window", "fields": {"a": 1}}, {})


def test_register_takes_only_data():
    class Mine(NamedTuple):
        a: int

    register(Mine)
    assert decode(encode(Mine(3), "x", {}), {}) == Mine(3)
    with pytest.raises(StoreError, match="neither a named tuple"):
        register(int)
    with pytest.raises(StoreError, match="called State already"):
        register(type("State", (Mine,), {}))
