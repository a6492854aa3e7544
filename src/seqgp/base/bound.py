"""A function with some of its arguments given, equal to any other with the same."""

from __future__ import annotations

import functools


class Bound(functools.partial):
    """``functools.partial`` that is equal where function and arguments are.

    What is compiled is found again by what it was compiled for: two models made alike must share it.
    """

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Bound)
            and self.func == other.func
            and self.args == other.args
            and self.keywords == other.keywords
        )

    def __hash__(self) -> int:
        return hash((self.func, self.args, tuple(sorted(self.keywords.items()))))
