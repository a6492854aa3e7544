"""Trees of a model: slots found, replaced by numbers, and drawn for a regime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.oracles.importance import value

WIDE = ("sigmoid", "lognormal", "uniform", "gamma", "halfnormal")


def is_slot(leaf: Any) -> bool:
    """Whether a leaf of a model is a prior."""
    return isinstance(leaf, tuple) and len(leaf) > 1 and isinstance(leaf[0], str)


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """A model with each prior and number replaced; names and sizes stay."""
    if isinstance(tree, dict):
        return {name: mapped(branch, function) for name, branch in tree.items()}
    if isinstance(tree, list):
        return [mapped(branch, function) for branch in tree]
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The priors, numbers and names of a model, in order."""
    found: list[Any] = []
    mapped(tree, found.append)
    return found


def wide_slots(model: dict) -> list[tuple]:
    """The priors that are inferred, in order."""
    found: list[tuple] = []

    def look(leaf):
        if is_slot(leaf) and leaf[0] in WIDE:
            found.append(leaf)
        return leaf

    mapped(model, look)
    return found


def numbers(model: dict, z: np.ndarray | None = None) -> dict:
    """The model as the oracle takes it: narrow priors at their value, wide ones at ``z`` (their medians by default)."""
    count = 0

    def take(leaf):
        nonlocal count
        if not is_slot(leaf):
            return leaf
        if leaf[0] == "narrow":
            return float(leaf[1])
        if leaf[0] == "normal":
            return leaf
        count += 1
        return float(value(leaf, 0.0 if z is None else z[count - 1]))

    return _oracle_kinds(mapped(model, take))


def _oracle_kinds(tree: Any) -> Any:
    """A kernel of one's own in terms of those that the oracle knows."""
    if isinstance(tree, list):
        return [_oracle_kinds(branch) for branch in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("kind") == "Absolute":
        return {"kind": "Product", "parts": [{"kind": "Matern12", "lengthscale": tree["width"]}] * tree["columns"]}
    return {name: _oracle_kinds(branch) for name, branch in tree.items()}


def sd_of(model: dict) -> float:
    """The standard deviation of the latent's zero-mean part, for kernels of unit variance."""
    return float(np.sqrt(sum(float(term["scale"]) ** 2 for term in model["terms"])))
