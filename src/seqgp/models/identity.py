"""What identifies a model and its parts: text that is the same in another process, and under another Python.

A function of one's own is known by its source (as a syntax tree: comments, layout, annotations and docstring do not
count), its defaults and what it closes over. A function of a library is known by its name: its code may change with the
version, what it computes should not. Neither bytecode nor the order of a set enters, which differ between Pythons and
processes.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import re
import sys
import types
from typing import Any

import equinox as eqx
import jax
import numpy as np

from seqgp.models.priors import FromDistribution

LIBRARIES = frozenset(
    {"equinox", "jax", "jaxlib", "jaxtyping", "numpy", "numpyro", "scipy", "seqgp", "tinygp"}
) | frozenset(sys.stdlib_module_names - {"__main__"})  # fmt: skip
# The mark of a function's code in a text: ``name#code``, ``name@library`` or ``name@library#what it closes over``.
_CODE = re.compile(r"(?<=[\w>])(@\w+#[0-9a-f]{12}|@\w+|#[0-9a-f]{12})")
_PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice)


def describe(part: Any, within: tuple[Any, ...] = ()) -> str:
    """A text that says what a part of a model is: classes, numbers, and for functions a hash of their source.

    ``within`` are the functions whose closures are being described: one that refers to itself is named, not followed.
    """
    if isinstance(part, np.generic):  # a NumPy number is the number
        part = part.item()

    def inner(value: Any) -> str:
        return describe(value, within)

    if isinstance(part, _PLAIN):
        return repr(part)
    if isinstance(part, dict):
        return "{" + ", ".join(f"{key}: {inner(value)}" for key, value in part.items()) + "}"
    if isinstance(part, (list, tuple)):
        return "(" + ", ".join(inner(value) for value in part) + ")"
    if isinstance(part, (set, frozenset)):
        return "set(" + ", ".join(sorted(inner(value) for value in part)) + ")"
    if isinstance(part, (np.ndarray, jax.Array)):
        return _array(np.asarray(part))
    if isinstance(part, types.FunctionType):
        return _function(part, within)
    if isinstance(part, types.MethodType):
        return f"{inner(part.__self__)}.{inner(part.__func__)}"
    if isinstance(part, functools.partial):
        return f"partial({inner(part.func)}, {inner(part.args)}, {inner(part.keywords)})"
    if isinstance(part, (type, types.BuiltinFunctionType)):
        return part.__qualname__
    if isinstance(part, types.ModuleType):
        return part.__name__
    return _object(part, inner)


def without_code(text: str) -> str:
    """The same description with functions known by their names alone."""
    return _CODE.sub("", text)


def _object(part: Any, inner: Any) -> str:
    parameters = getattr(part, "arg_constraints", None)
    if isinstance(part, FromDistribution):
        names = ["distribution"]  # its table follows from it
    elif isinstance(part, eqx.Module):
        names = list(vars(part))
    elif isinstance(parameters, dict):  # a NumPyro distribution
        names = sorted(parameters)
    elif hasattr(part, "__wrapped__"):  # a function under jax.jit, say
        return inner(part.__wrapped__)
    elif dataclasses.is_dataclass(part):
        names = [field.name for field in dataclasses.fields(part)]
    elif callable(part) and isinstance(getattr(part, "__name__", None), str):  # a ufunc, say
        return f"{type(part).__name__} {part.__name__}"
    else:
        return type(part).__name__
    return f"{type(part).__name__}({', '.join(f'{name}={inner(getattr(part, name, None))}' for name in names)})"


def _array(array: np.ndarray) -> str:
    if array.size == 1:
        return repr(array.item())
    return f"array{array.shape}#{hashlib.sha256(array.tobytes()).hexdigest()[:12]}"


def _function(function: types.FunctionType, within: tuple[Any, ...]) -> str:
    if any(function is outer for outer in within):
        return function.__qualname__
    within = (*within, function)
    code = function.__code__
    library = str(function.__globals__.get("__name__", "")).split(".")[0]
    known = library in LIBRARIES and "<lambda>" not in code.co_qualname
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    held = [f"{name}={describe(_content(cells[name]), within)}" for name in sorted(cells)]
    held.append(describe((function.__defaults__, function.__kwdefaults__), within))
    if known:
        bare = not cells and function.__defaults__ is None and function.__kwdefaults__ is None
        return f"{code.co_qualname}@{library}" + ("" if bare else f"#{_hash(*held)}")
    return f"{function.__qualname__}#{_hash(_source(code), *held)}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


@functools.lru_cache(maxsize=256)
def _source(code: types.CodeType) -> str:
    """The syntax tree of a function as text; without its source, its names and constants."""
    node = _node(code)
    return _names_and_constants(code) if node is None else _tree(node)


def _node(code: types.CodeType) -> ast.AST | None:
    try:
        lines, _ = inspect.findsource(code)
        tree = _parsed("".join(lines))
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    found = [node for node in ast.walk(tree) if _begins(node, code)]
    if len(found) > 1:  # several lambdas on a line
        found = sorted((node for node in found if _contains(node, code)), key=_extent)[:1]
    return found[0] if found else None


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _begins(node: ast.AST, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    return False


def _contains(node: ast.AST, code: types.CodeType) -> bool:
    """Whether all instructions come from the body of a lambda."""
    body: Any = node.body if isinstance(node, ast.Lambda) else node
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    return bool(places) and all(start <= (line, column) and (last, past) <= end for line, last, column, past in places)


def _extent(node: Any) -> tuple[int, int]:
    return node.end_lineno - node.lineno, node.end_col_offset - node.col_offset


def _tree(node: Any) -> str:
    """A syntax tree as text that does not depend on the version of Python: what is absent or empty is left out."""
    if isinstance(node, list):
        return "[" + ",".join(_tree(one) for one in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value is not None and value != []}
    for name in ("annotation", "ctx", "kind", "returns", "type_comment"):  # nothing of what is computed
        fields.pop(name, None)
    if isinstance(node, ast.JoinedStr):
        fields["values"] = _joined(node.values)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return f"{type(node).__name__}({','.join(f'{name}={_tree(value)}' for name, value in fields.items())})"


def _joined(parts: list[Any]) -> list[Any]:
    """The parts of an f-string; some Pythons leave empty ones, and literal ones side by side."""
    joined: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Constant) and part.value == "":
            continue
        if joined and isinstance(part, ast.Constant) and isinstance(joined[-1], ast.Constant):
            joined[-1] = ast.Constant(f"{joined[-1].value}{part.value}")
        else:
            joined.append(part)
    return joined


def _names_and_constants(code: types.CodeType) -> str:
    """Where there is no source (a function made by ``exec``): all that is known besides instructions."""
    inner = [_names_and_constants(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    constants = sorted({describe(one) for one in code.co_consts if not isinstance(one, types.CodeType)} - {"None"})
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return describe((arguments, sorted(set(code.co_names)), constants, inner))
