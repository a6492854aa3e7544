"""Networks with gaps: when the filter of low rank is used, with which rank, and how accurate that is.

It keeps correlations that gaps cause between the modes of space up to a rank. The rank is checked against twice the
rank on a few particles, after each rejuvenation and whenever the number of snapshots has doubled.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from seqgp.base.snapshot import Context
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.modes import commuting_error, space_modes
from seqgp.statespace.network import Compression, NetworkFilter
from seqgp.statespace.observation import Observation
from seqgp.statespace.protocol import Filter
from seqgp.statespace.rank import DENSE_BELOW, FIRST, TWO_LEVELS, most_gaps
from seqgp.statespace.takeover import RECENT
from seqgp.statespace.two_level import MULTIPLE

WINDOW = 8  # snapshots over which gaps are averaged: one bad day does not change the filter
BACK_FROM_DENSE = 2 / 3  # of the share missing that takes the dense filter, down to which this gives way again
COMMUTING = 1e-9  # the error of common eigenvectors that is rounding
TRIED_SITES = 24  # on which it is tried whether terms have common eigenvectors


class NetworkPlan(NamedTuple):
    """How the filters of a network with gaps are compressed, and how accurate that was when it was last checked."""

    rank: int = FIRST  # 0 where no rank is accurate and cheap: the dense filter
    checked_at: int = 0  # the step
    shift: float = 0.0  # of the log evidence, against twice the rank
    spread: float = 0.0  # its standard deviation between particles
    folded: float = 0.0  # the largest folded trace of a particle
    leading: int | None = None  # modes that correlations are kept between, in large networks; all where it is None
    left_out: float = 0.0  # the share of the squared gains that the other modes have, at most of a few particles

    @property
    def compression(self) -> Compression:
        """For the filter."""
        return Compression(self.rank, self.leading)

    def for_sites(self, sites: int) -> NetworkPlan:
        """With two levels of modes for many sites; how many lead is found from the kernel once there are particles."""
        if self.leading is not None or sites < TWO_LEVELS:
            return self
        return self._replace(leading=-(-sites // (4 * MULTIPLE)) * MULTIPLE)

    def refined(self, rank: int, sites: int) -> NetworkPlan:
        """At another rank, with as many times as many leading modes."""
        leading = None if self.leading is None else min(self.leading * rank // max(self.rank, 1), sites)
        return self._replace(rank=rank, leading=leading)


FIRST_PLAN = NetworkPlan()


class SiteGaps(NamedTuple):
    """How many sites a snapshot left out."""

    missing: int
    sites: int


def suits_network(
    ssm: StateSpaceModel,
    x: np.ndarray,
    plan: NetworkPlan,
    observation: Observation,
    recent: Sequence[SiteGaps],
    now: Filter | None,
) -> bool:
    """Whether the filter of low rank takes a snapshot of Gaussian data with one noise level.

    Args:
        ssm: the model as a state-space model.
        x: the stations.
        plan: the rank.
        observation: the snapshot on the stations.
        recent: what the last snapshots left out, this one last.
        now: the filter so far, or ``None``.
    """
    index = np.asarray(observation.operator.index)
    if plan.rank == 0 or len(x) < DENSE_BELOW or len(np.unique(index)) < len(index):
        return False
    # Snapshots without any data cost nothing.
    shares = [one.missing / one.sites for one in recent[-WINDOW:] if one.missing < one.sites]
    share = float(np.mean(shares)) if shares else 0.0
    dense = now is not None and now.name == "dense"
    most = most_gaps(len(x)) * (BACK_FROM_DENSE if dense else 1.0)
    if share > most or (dense and len(recent) < WINDOW):
        return False
    return len(ssm.states) == 1 or _common_eigenvectors(ssm, x)


_KNOWN: dict[int, tuple[weakref.ref, bool]] = {}


def _common_eigenvectors(ssm: StateSpaceModel, x: np.ndarray) -> bool:
    """Whether the terms' space kernels have the same eigenvectors, tried at three values of the parameters."""
    known = _KNOWN.get(id(ssm))
    if known is not None and known[0]() is ssm:
        return known[1]
    mean, sd = ssm.particle_prior()
    points, worst = jnp.asarray(x[:TRIED_SITES]), 0.0
    for step in (-0.7, 0.0, 0.9):
        shifts = step * np.cos(np.arange(len(mean)))  # different for each parameter
        parameters = ssm.parameters(jnp.asarray(mean + shifts * sd))
        spaces = ssm.space(parameters, ssm.distances(points, points))
        worst = max(worst, float(commuting_error(space_modes(spaces), spaces)))
    number = id(ssm)
    _KNOWN[number] = weakref.ref(ssm, lambda _: _KNOWN.pop(number, None)), worst < COMMUTING
    return worst < COMMUTING


def network_filter(
    ssm: StateSpaceModel, x: np.ndarray, size: int, plan: NetworkPlan, times: Sequence[float], context: Context
) -> NetworkFilter:
    """The filter on stations, padded to a number of them, after snapshots at some times."""
    wide = np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])
    before = np.asarray(times, float)[-RECENT:]
    dts = np.concatenate([np.full(RECENT - len(before), np.inf), np.diff(before, prepend=before[:1])])
    return NetworkFilter(ssm, wide, np.arange(size) < len(x), dts, context, plan.compression)
