"""The parameters of a kernel at one ``z``: values by name."""

from __future__ import annotations

from seqgp.base.priors import Parameters


def within(parameters: Parameters, prefix: str) -> Parameters:
    """The entries below ``prefix``, with the prefix dropped."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}
