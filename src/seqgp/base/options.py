"""What a ready-made part of a model takes, read from its signature and its docstring.

A kernel or a likelihood is described in one place, its class. Configuration files, their checks and the tables of the
documentation follow from it.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from seqgp.base.priors import Parameter

_ENTRY = re.compile(r"^ {4}(\w+): (.*)$")
_OTHERS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Option(NamedTuple):
    """An argument of a class or function."""

    name: str
    kind: Any  # its annotation
    default: object  # inspect.Parameter.empty where it has none
    description: str  # of the docstring, without the full stop

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def inferable(self) -> bool:
        """Whether it takes a number or a prior, or a list of them, and has one by default or must be given."""
        return self.default is not None and set(typing.get_args(Parameter)) <= set(typing.get_args(self.kind))


def options_of(part: Callable[..., object]) -> dict[str, Option]:
    """The arguments of a class or function by name, in order."""
    described: dict[str, str] = {}
    for one in reversed(part.__mro__ if isinstance(part, type) else (part,)):
        described |= _described(inspect.cleandoc(one.__doc__ or ""))
    made: Any = part.__init__ if isinstance(part, type) else part
    kinds = typing.get_type_hints(made)
    signature = inspect.signature(made).parameters
    return {
        name: Option(name, kinds[name], one.default, described.get(name, ""))
        for name, one in signature.items()
        if name != "self" and one.kind not in _OTHERS
    }


def _described(text: str) -> dict[str, str]:
    """The entries of the section ``Args`` of a docstring."""
    found: dict[str, list[str]] = {}
    name = None
    _, _, section = text.partition("\nArgs:\n")
    for line in section.split("\n"):
        entry = _ENTRY.match(line)
        if entry:
            name = entry[1]
            found[name] = [entry[2]]
        elif name and line.startswith("     "):
            found[name].append(line.strip())
        elif line.strip():
            break
    return {name: " ".join(lines).rstrip(".") for name, lines in found.items()}


def example_of(part: Callable[..., object], name: str) -> str:
    """A line of code that makes a part: the ``Example`` of its docstring, or its name with a prior for each parameter.

    Args:
        part: a class.
        name: what the line calls it, ``likelihoods.Gamma``.
    """
    _, _, example = inspect.cleandoc(part.__doc__ or "").partition("\nExample:\n")
    if example:
        return example.strip().split("\n")[0].strip("`")
    slots = [one for one in options_of(part).values() if one.inferable]
    return f"{name}({', '.join(f'{one.name}=prior' for one in slots)})"


def summary_of(part: object) -> str:
    """The first sentence of a docstring, without the full stop."""
    return inspect.cleandoc(part.__doc__ or "").split("\n")[0].rstrip(".")
