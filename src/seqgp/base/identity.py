"""What identifies a model and its parts: text that is the same in another process, and under another Python.

A function of one's own is known by its source (``seqgp.base.source``), its defaults, what it closes over and what
it looks up in its module. An object is known by its class and its contents: fields, ``__dict__``, ``__slots__``, or
what it gives to be pickled. An object that wants to say itself what it is has a method ``__seqgp_digest__`` that
returns a text. A function or class of a library is known by its name: its code may change with the version, what it
computes should not.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist

from seqgp.base.priors import FromDistribution
from seqgp.base.source import global_names, source_of

LIBRARIES = frozenset(
    {"equinox", "jax", "jaxlib", "jaxtyping", "numpy", "numpyro", "scipy", "seqgp", "tinygp"}
) | frozenset(sys.stdlib_module_names - {"__main__"})  # fmt: skip
HOOK = "__seqgp_digest__"
# The mark of a function's code in a text: ``name#code``, ``name@library`` or ``name@library#what it closes over``.
_CODE = re.compile(r"(?<=[\w>])(@\w+#[0-9a-f]{12}|@\w+|#[0-9a-f]{12})")
_PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")


def describe(part: object, in_version: int = 3) -> str:
    """A text that says what a part of a model is: classes, numbers, and for functions a hash of their source.

    Args:
        part: anything.
        in_version: 2 for the text of seqgp 0.2, which knew an object of an unknown class by the name of that alone.
    """
    return _Description(in_version >= 3).of(part)


def undescribed(part: object) -> list[str]:
    """The types of objects inside a part that cannot be told from others of their type."""
    description = _Description(True)
    description.of(part)
    return list(dict.fromkeys(description.unknown))


def without_code(text: str) -> str:
    """The same description with functions known by their names alone."""
    return _CODE.sub("", text)


class _Description:
    """One walk through a part; what refers to itself is named, not followed."""

    def __init__(self, contents: bool):
        self.contents = contents  # whether objects are known by what they hold
        self.unknown: list[str] = []
        self._within: list[object] = []
        self._classes: list[type] = []
        self._done: dict[int, tuple[object, str]] = {}

    def of(self, part: object) -> str:
        """The text of anything."""
        if isinstance(part, np.generic):  # a NumPy number is the number
            part = part.item()
        if isinstance(part, _PLAIN):
            return repr(part)
        if isinstance(part, dict):
            return "{" + ", ".join(f"{self._key(key)}: {self.of(value)}" for key, value in part.items()) + "}"
        if isinstance(part, (list, tuple)):
            return "(" + ", ".join(self.of(value) for value in part) + ")"
        if isinstance(part, (set, frozenset)):
            return "set(" + ", ".join(sorted(self.of(value) for value in part)) + ")"
        if isinstance(part, (np.ndarray, jax.Array)):
            return self._array(part)
        if isinstance(part, types.MethodType):
            return f"{self.of(part.__self__)}.{self.of(part.__func__)}"
        if isinstance(part, functools.partial):
            return f"partial({self.of(part.func)}, {self.of(part.args)}, {self.of(part.keywords)})"
        if isinstance(part, types.BuiltinFunctionType):
            return self._builtin(part)
        if isinstance(part, types.ModuleType):
            return part.__name__
        return self._followed(part)

    def _followed(self, part: object) -> str:
        if any(part is outer for outer in self._within):
            return getattr(part, "__qualname__", f"{type(part).__name__} itself")
        if id(part) not in self._done:
            self._within.append(part)
            try:
                text = self._walked(part)
            finally:
                self._within.pop()
            self._done[id(part)] = (part, text)  # held, so that nothing else gets its number
        return self._done[id(part)][1]

    def _walked(self, part: object) -> str:
        if isinstance(part, types.FunctionType):
            return self._function(part)
        return part.__qualname__ + self._code(part) if isinstance(part, type) else self._object(part)

    def _key(self, key: object) -> str:
        return self.of(key) if self.contents and not isinstance(key, str) else str(key)

    def _array(self, array: np.ndarray | jax.Array) -> str:
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        values = np.asarray(array)
        if values.dtype.hasobject and self.contents:
            return f"array{values.shape}{self.of(values.reshape(-1).tolist())}"
        if values.size == 1:
            return repr(values.item())
        return f"array{values.shape}#{hashlib.sha256(values.tobytes()).hexdigest()[:12]}"

    def _builtin(self, part: types.BuiltinFunctionType) -> str:
        held = getattr(part, "__self__", None)
        if not self.contents or held is None or isinstance(held, (types.ModuleType, type)):
            return part.__qualname__
        return f"{self.of(held)}.{part.__name__}"  # a method of an object that no Python code defines

    def _object(self, part: Any) -> str:
        parameters = getattr(part, "arg_constraints", None)
        if self.contents and callable(getattr(type(part), HOOK, None)):
            return f"{type(part).__name__}[{getattr(part, HOOK)()}]"
        if isinstance(part, FromDistribution):
            names = ["distribution"]  # its table follows from it
        elif isinstance(part, eqx.Module):
            names = list(vars(part))
            names = [name for name in names if not (self.contents and _is_computed(part, name))]
        elif isinstance(parameters, dict):  # a NumPyro distribution
            names = sorted(parameters) + (_beside_parameters(part, parameters) if self.contents else [])
        elif hasattr(part, "__wrapped__"):  # a function under jax.jit, say
            return self.of(part.__wrapped__)
        elif dataclasses.is_dataclass(part) and not self.contents:
            names = [field.name for field in dataclasses.fields(part)]
        elif callable(part) and _is_named(part) and not (self.contents and _is_own(type(part))):  # a ufunc, say
            return f"{type(part).__name__} {part.__name__}"
        elif self.contents:
            return self._contents(part)
        else:
            return type(part).__name__
        held = ", ".join(f"{name}={self.of(getattr(part, name, None))}" for name in names)
        name = getattr(type(part), "identity", type(part).__name__)  # a class that was renamed keeps its first name
        return f"{name}{self._code(type(part))}({held})"

    def _contents(self, part: object) -> str:
        """An object by what it holds: as it would be pickled where its class says how, else all its attributes."""
        kind, name = type(part), type(part).__name__ + self._code(type(part))
        attributes = _attributes(part)
        says_how = any(
            getattr(kind, how, None) is not getattr(object, how, None)
            for how in ("__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
        )
        if says_how or not attributes:
            try:
                return f"{name}{self.of(_pickled(part))}"
            except Exception:  # whatever a class of someone else raises: it cannot be pickled
                if not attributes:
                    return self._by_text(part, name)
        return f"{name}({', '.join(f'{key}={self.of(value)}' for key, value in sorted(attributes.items()))})"

    def _by_text(self, part: object, name: str) -> str:
        text = repr(part)
        if type(part).__repr__ is object.__repr__ or _ADDRESS.search(text):
            self.unknown.append(type(part).__qualname__)
            return name
        return f"{name}[{text}]"

    def _code(self, kind: type) -> str:
        """The mark of the code of a class of one's own; one of a library is known by its name."""
        if not self.contents or not _is_own(kind) or kind in self._classes:
            return ""
        self._classes.append(kind)
        try:
            code = [text for base in kind.__mro__ if _is_own(base) for text in self._members(base)]
        finally:
            self._classes.pop()
        return f"#{_hash(*code)}" if code else ""

    def _members(self, kind: type) -> list[str]:
        """Methods and values of a class of one's own."""
        found = []
        for name, value in sorted(vars(kind).items()):
            for function in _functions(value):
                if not function.__code__.co_filename.startswith("<") or not name.startswith("__"):  # made by dataclass
                    found.append(f"{name}={self.of(function)}")
            if isinstance(value, (*_PLAIN, np.ndarray, jax.Array)) and not name.startswith("__"):
                found.append(f"{name}={self.of(value)}")
        return found

    def _function(self, function: types.FunctionType) -> str:
        code = function.__code__
        library = str(function.__globals__.get("__name__", "")).split(".")[0]
        known = library in LIBRARIES and "<lambda>" not in code.co_qualname
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        held = [f"{name}={self.of(_content(cells[name]))}" for name in sorted(cells)]
        held.append(self.of((function.__defaults__, function.__kwdefaults__)))
        if known:
            bare = not cells and function.__defaults__ is None and function.__kwdefaults__ is None
            return f"{code.co_qualname}@{library}" + ("" if bare else f"#{_hash(*held)}")
        return f"{function.__qualname__}#{_hash(source_of(code), *held, *self._looked_up(function))}"

    def _looked_up(self, function: types.FunctionType) -> list[str]:
        """What a function uses of its module, but for what libraries define."""
        if not self.contents:
            return []
        space = function.__globals__
        there = {name: space[name] for name in global_names(function.__code__) if name in space}
        return [f"{name}={self.of(value)}" for name, value in there.items() if not _is_of_library(value)]


def _is_of_library(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return True
    module = getattr(value, "__module__", None)
    defined = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or _is_named(value)
    return defined and isinstance(module, str) and module.split(".")[0] in LIBRARIES


def _is_own(kind: type) -> bool:
    return str(kind.__module__).split(".")[0] not in LIBRARIES | {"builtins"}


def _is_named(part: object) -> bool:
    return isinstance(getattr(part, "__name__", None), str)


def _functions(value: object) -> list[types.FunctionType]:
    """The functions behind a member of a class: a method, a property, a static or class method."""
    if isinstance(value, property):
        found = [value.fget, value.fset]
    elif isinstance(value, functools.cached_property):
        found = [value.func]
    else:
        found = [value, getattr(value, "__wrapped__", None)]
    return [one for one in found if isinstance(one, types.FunctionType)][:1]


def _is_computed(part: object, name: str) -> bool:
    """Whether an attribute is one that the class computes and keeps: a cached property."""
    kept = inspect.getattr_static(type(part), name, None)
    if isinstance(kept, (types.FunctionType, staticmethod, classmethod)):  # a method that the object has its own of
        return False
    return hasattr(type(kept), "__get__") and not hasattr(type(kept), "__set__")


def _attributes(part: object) -> dict[str, object]:
    slots = [name for kind in type(part).__mro__ for name in _slots(kind)]
    found = {name: getattr(part, name) for name in slots if hasattr(part, name)}
    found |= getattr(part, "__dict__", {})
    return {name: value for name, value in found.items() if not _is_computed(part, name)}


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    private = [f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name for name in names]
    return [name for name in private if name not in ("__dict__", "__weakref__") and not name.endswith("__weakref__")]


def _pickled(part: object) -> object:
    """What makes an object again; a text stands for one that is known by its name."""
    found = part.__reduce_ex__(2)
    if isinstance(found, str):
        return found
    maker, arguments, *rest = found
    named = getattr(maker, "__name__", type(maker).__name__)
    if named == "__newobj__":  # the class comes first, and is named already
        arguments = arguments[1:]
    return (named, arguments, *[list(one) if hasattr(one, "__next__") else one for one in rest])


def _beside_parameters(part: dist.Distribution, parameters: Mapping[str, object]) -> list[str]:
    """What a distribution is made of besides numbers: one that it transforms or truncates, the parts of a mixture."""
    asked = set(inspect.signature(type(part).__init__).parameters) - {"self", "validate_args"}
    if asked <= set(parameters):
        return []
    return sorted(set(type(part).gather_pytree_data_fields()) - set(parameters))


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
