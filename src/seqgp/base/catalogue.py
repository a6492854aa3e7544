"""The public names of a package of ready-made parts: those in ``__all__`` of its modules, imported when first used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from seqgp.base.errors import did_you_mean


class Catalogue:
    """The public names of some modules of a package.

    Args:
        package: its name.
        *modules: the names of the modules, in the order in which their names are listed.
    """

    def __init__(self, package: str, *modules: str):
        self.package, self.modules = package, modules

    def names(self) -> list[str]:
        """All public names."""
        return [name for module in self._imported() for name in module.__all__]

    def find(self, name: str) -> Any:
        """What a public name stands for; an attribute error where it is none."""
        if name == "__all__":
            return self.names()
        if not name.startswith("_"):
            for module in self._imported():
                if name in module.__all__:
                    return getattr(module, name)
        near = "" if name.startswith("_") else did_you_mean(name, self.names())
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}{near}")

    def classes(self, base: type) -> dict[str, type]:
        """The public classes that derive from another, by name."""
        found = {name: self.find(name) for name in self.names()}
        return {
            name: one
            for name, one in found.items()
            if isinstance(one, type) and issubclass(one, base) and one is not base
        }

    def _imported(self) -> list[ModuleType]:
        return [importlib.import_module(f"{self.package}.{module}") for module in self.modules]
