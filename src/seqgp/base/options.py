"""What a ready-made part of a model takes, read from its signature and its docstring.

A kernel or a likelihood is described in one place, its class. Configuration files, their checks and the tables of the
documentation follow from it.
"""

from __future__ import annotations

import inspect
import re
import typing
from typing import Any, NamedTuple

_ENTRY = re.compile(r"^ {4}(\w+): (.*)$")


class Option(NamedTuple):
    """An argument of a class."""

    name: str
    kind: Any  # its annotation
    default: Any  # inspect.Parameter.empty where it has none
    description: str  # of the docstring, without the full stop

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty


def options_of(cls: type) -> dict[str, Option]:
    """The arguments of a class by name, in order."""
    described = _described(inspect.getdoc(cls) or "")
    kinds = typing.get_type_hints(cls.__init__)
    signature = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return {one.name: Option(one.name, kinds[one.name], one.default, described.get(one.name, "")) for one in signature}


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
