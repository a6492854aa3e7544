"""Faults of the kinds that were once found, planted: the fuzzer must find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Fault(NamedTuple):
    """How a fault is planted (with pytest's monkeypatch), and in which cases it can show."""

    plant: Callable[[Any], None]
    ways: tuple[str, ...]
    shape: str  # of the tests, whose cases find it soon
    most: int  # cases of that shape within which it is found


def modes_at_sites(monkeypatch) -> None:
    """The random numbers of modes at the indices of the sites asked for: the other modes get none."""
    from seqgp.statespace.eigenbasis import RotatedFilter

    honest = RotatedFilter.draw_f_given

    def draw(self, matrices, state, query, coefficients, white):
        if not query.at_sites:
            return honest(self, matrices, state, query, coefficients, white)
        index = query.operator.index
        few = white[:, : len(index)]
        at_sites = jax.vmap(lambda one: jnp.zeros(self.sites).at[index].set(one))(few)
        return honest(self, matrices, state, query, coefficients, at_sites)

    monkeypatch.setattr(RotatedFilter, "draw_f_given", draw)


def diverged_ep(monkeypatch) -> None:
    """What expectation propagation has after its first sweep is passed on, whether it has converged or not."""
    from seqgp.statespace import snapshot_ep as ep

    monkeypatch.setattr(ep, "SWEEPS", 1)
    monkeypatch.setattr(ep, "TABLES", 1)
    monkeypatch.setattr(ep, "TOLERANCE", np.inf)
    monkeypatch.setattr(ep, "MOVED", np.inf)
    monkeypatch.setattr(ep, "STRETCHED", np.inf)


def permuted_rows(monkeypatch) -> None:
    """The data of a snapshot's stations are laid on the sites in the order of their coordinates."""
    from seqgp.samplers.online import layout

    honest = layout._rows_in

    def sorted_rows(sites, x):
        return np.sort(honest(sites, x))

    monkeypatch.setattr(layout, "_rows_in", sorted_rows)


def stale_fingerprint(monkeypatch) -> None:
    """A model is known by the fingerprint of the first one that was asked for."""
    from seqgp.model import Model

    honest, first = Model.fingerprint, []

    def stale(self):
        first.append(honest(self))
        return first[0]

    monkeypatch.setattr(Model, "fingerprint", stale)


FAULTS = {
    "modes at sites' indices": Fault(modes_at_sites, ("plain",), "complete", 6),
    "a diverged EP passed on": Fault(diverged_ep, ("plain",), "counts", 12),
    "a station's rows permuted": Fault(permuted_rows, ("permuted",), "gaps", 4),
    "a stale fingerprint": Fault(stale_fingerprint, ("changed",), "complete", 6),
}
