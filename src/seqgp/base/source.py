"""The source of a function as text that is the same under every Python: its syntax tree.

Comments, layout, annotations and docstring do not count; neither do bytecode and the order of a set.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any


@functools.lru_cache(maxsize=256)
def source_of(code: types.CodeType) -> str:
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


def _tree(node: object) -> str:
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


def _joined(parts: Sequence[object]) -> list[object]:
    """The parts of an f-string; some Pythons leave empty ones, and literal ones side by side."""
    joined: list[object] = []
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
    constants = sorted({_constant(one) for one in code.co_consts if not isinstance(one, types.CodeType)} - {"None"})
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return _constant((arguments, sorted(set(code.co_names)), constants, inner))


def _constant(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_constant(one) for one in value) + ")"
    if isinstance(value, frozenset):
        return "set(" + ", ".join(sorted(_constant(one) for one in value)) + ")"
    return "ellipsis" if value is ... else repr(value)


def global_names(code: types.CodeType) -> list[str]:
    """The names that a function, or one inside it, looks up in its module (or among the built-in ones)."""
    node = _node(code)
    named = set(_code_names(code))
    if node is not None:  # the code lists attributes among its names, the tree knows better
        named &= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return sorted(named)


def _code_names(code: types.CodeType) -> list[str]:
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in _code_names(one)]
    return [*code.co_names, *inner]
