"""The data so far as filters see them: each snapshot laid on the sites (:mod:`seqgp.samplers.online.layout`).

The sites change rarely: when a station joins, when complete data become incomplete. A *segment* is a run of snapshots
with one filter; between segments the states are carried over exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot
from seqgp.fields.grid import Grid
from seqgp.fields.knots import Knots
from seqgp.kernels.delayed import delay_spread
from seqgp.samplers.online.black_box import with_table
from seqgp.samplers.online.layout import (
    LatentOption,
    SiteLayout,
    all_known,
    dense_filter,
    first_layout,
    is_complete,
    new_rows,
    observation_of,
    one_noise_level,
    room_for,
    suits_knots,
)
from seqgp.samplers.online.network import FIRST_PLAN, WINDOW, NetworkPlan, SiteGaps, network_filter, suits_network
from seqgp.samplers.online.quadratics import LinearisedSnapshot, QuadraticFit
from seqgp.statespace.delayed_window import window_needed
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.fourier_box import fourier_box
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Observation
from seqgp.statespace.protocol import Filter

MAX_WINDOW = 40  # snapshots in the window of a filter with delays
REPLAYED_SITES = 400  # from which a covariance written out costs more than a filter run anew over
REPLAYED_SNAPSHOTS = 64  # of them at most


class Segment(NamedTuple):
    """Snapshots with one filter."""

    filter: Filter
    first: int  # how many snapshots came before
    observations: tuple[Observation, ...]


class Timeline(NamedTuple):
    """All snapshots so far, laid out."""

    ssm: StateSpaceModel
    latent: LatentOption
    layout: SiteLayout
    segments: tuple[Segment, ...]
    snapshots: tuple[Snapshot, ...]
    linearised_snapshots: tuple[
        LinearisedSnapshot | None, ...
    ]  # of each snapshot whose likelihood sees all of the latent
    rebuilt: bool  # whether the last snapshot changed how all before are laid out
    plan: NetworkPlan = FIRST_PLAN  # of the filter of networks with gaps

    @property
    def filter(self) -> Filter:
        """The filter of the last snapshot."""
        return self.segments[-1].filter

    def with_snapshot(self, snapshot: Snapshot, linearised: LinearisedSnapshot | None = None) -> Timeline:
        """With one more snapshot."""
        layout = self.layout
        if self.ssm.model.kernel.delayed:
            window = delay_window(self, snapshot)
            if window > layout.window or (layout.window and not all_known(layout, snapshot.x)):
                return _windowed(self, snapshot, linearised, window)
        if layout.knots is None:
            fresh = new_rows(layout.x, snapshot.x)
            if len(fresh):
                if self._moves(snapshot, len(fresh)):
                    return _rebuilt(self, snapshot, linearised)
                layout = self._with_sites(fresh, snapshot)
                replayed = self._replayed(layout, snapshot, linearised)
                if replayed is not None:
                    return replayed
        elif self.latent == "auto" and linearised is None and not layout.knots.holds(snapshot.x):
            return _rebuilt(self, snapshot, linearised)  # knots of our own choice follow inputs that drift
        return _appended(self._replace(layout=layout, rebuilt=False), snapshot, linearised)

    def until(self, count: int) -> Timeline:
        """The first so many snapshots."""
        segments = tuple(
            one._replace(observations=one.observations[: count - one.first])
            for one in self.segments
            if one.first < count
        )
        snapshots, linearised_snapshots = self.snapshots[:count], self.linearised_snapshots[:count]
        return self._replace(
            segments=segments, snapshots=snapshots, linearised_snapshots=linearised_snapshots, rebuilt=False
        )

    def log_corrections(self, z: np.ndarray) -> np.ndarray:
        """What the linearisation of each snapshot leaves to be added to its log evidence, ``(S, T)``."""
        columns = [np.zeros(len(z)) if one is None else one.log_correction(z) for one in self.linearised_snapshots]
        return np.stack(columns, axis=1)

    def corrected(self, correction: QuadraticFit) -> Timeline:
        """With the correction of the last snapshot's linearisation."""
        *before, last = self.linearised_snapshots
        assert last is not None
        return self._replace(linearised_snapshots=(*before, last._replace(correction=correction)))

    def compressed(self, plan: NetworkPlan) -> Timeline:
        """With another compression of the filters of low rank."""

        def changed(segment: Segment) -> Segment:
            if not isinstance(segment.filter, NetworkFilter):
                return segment
            return segment._replace(filter=dataclasses.replace(segment.filter, compression=plan.compression))

        return self._replace(segments=tuple(changed(one) for one in self.segments), plan=plan)

    def _replayed(
        self, layout: SiteLayout, snapshot: Snapshot, linearised: LinearisedSnapshot | None
    ) -> Timeline | None:
        """All snapshots with stations that join as sites from the start; ``None`` where states are carried over.

        Of a large network and few snapshots: to carry a state over, its covariance is written out.
        """
        modal = isinstance(self.filter, (NetworkFilter, RotatedFilter))
        if not modal or len(layout.x) < REPLAYED_SITES or len(self.snapshots) >= REPLAYED_SNAPSHOTS:
            return None
        new = Timeline(self.ssm, self.latent, layout, (), (), (), rebuilt=True, plan=self.plan)
        for one, its in zip((*self.snapshots, snapshot), (*self.linearised_snapshots, linearised)):
            new = _appended(new, one, its)
        return new if all(isinstance(one.filter, NetworkFilter) for one in new.segments) else None

    def _moves(self, snapshot: Snapshot, fresh: int) -> bool:
        """Whether inputs move about, so that knots serve better than ever more stations."""
        moving = 2 * fresh > len(snapshot.x) and len(snapshot.x) > 1
        return self.latent == "auto" and moving and len(self.layout.x) > 8 and suits_knots(self.ssm.model, snapshot.x)

    def _with_sites(self, fresh: np.ndarray, snapshot: Snapshot) -> SiteLayout:
        if isinstance(self.latent, Grid):
            raise DataError(
                f"Grid: {len(fresh)} points of x at t = {snapshot.t} are not of the first snapshot; use latent='auto' "
                "for stations that come and go, seqgp.Knots(…) for inputs that move"
            )
        x = np.concatenate([self.layout.x, fresh])
        return self.layout._replace(x=x, axes=None)


def begin(
    ssm: StateSpaceModel,
    latent: LatentOption,
    snapshot: Snapshot,
    linearised: LinearisedSnapshot | None = None,
    plan: NetworkPlan = FIRST_PLAN,
) -> Timeline:
    """The history of a first snapshot: chooses where the latent lives."""
    layout = first_layout(ssm, latent, snapshot.x)
    return _appended(Timeline(ssm, latent, layout, (), (), (), rebuilt=False, plan=plan), snapshot, linearised)


def build_timeline(
    ssm: StateSpaceModel,
    latent: LatentOption,
    snapshots: Sequence[Snapshot],
    linearised_snapshots: Sequence[LinearisedSnapshot | None],
    together: int = 1,
    plan: NetworkPlan = FIRST_PLAN,
) -> Timeline:
    """The history of many snapshots, as it came about one by one; with the sites of the first few from the start."""
    history = begin(ssm, latent, snapshots[0], linearised_snapshots[0], plan)
    x = history.layout.x
    for snapshot in snapshots[1:together]:
        fresh = new_rows(x, snapshot.x)
        if history.layout.knots is not None or history._moves(snapshot, len(fresh)):
            x = history.layout.x
            break
        x = np.concatenate([x, fresh])
    if len(x) > len(history.layout.x):
        layout = first_layout(ssm, latent, x)
        empty = Timeline(ssm, latent, layout, (), (), (), rebuilt=False, plan=plan)
        history = _appended(empty, snapshots[0], linearised_snapshots[0])
    for snapshot, linearised in zip(snapshots[1:], linearised_snapshots[1:]):
        history = history.with_snapshot(snapshot, linearised)
    return history


def _rebuilt(history: Timeline, snapshot: Snapshot, linearised: LinearisedSnapshot | None) -> Timeline:
    """All snapshots on other knots or modes, because inputs move."""
    every = (*history.snapshots, snapshot)
    x = np.concatenate([one.x for one in every])
    if history.ssm.model.kernel.advected:
        layout = history.layout._replace(knots=fourier_box(history.ssm, x))
    else:
        knots = Knots().resolve(history.ssm.model.kernel.terms()[0][1], x)
        layout = SiteLayout(x[:0], None, knots, "a smooth kernel, and inputs that move")
    new = Timeline(history.ssm, history.latent, layout, (), (), (), rebuilt=True)
    for one, its in zip(every, (*history.linearised_snapshots, linearised)):
        new = _appended(new, one, its)
    return new


def _appended(history: Timeline, snapshot: Snapshot, linearised: LinearisedSnapshot | None) -> Timeline:
    ssm, layout = history.ssm, history.layout
    last = history.snapshots[-1].t if history.snapshots else snapshot.t
    observation = observation_of(ssm, layout, snapshot, snapshot.t - last, linearised)
    one_noise = layout.knots is None and not ssm.model.kernel.moving and one_noise_level(ssm, snapshot)
    rotated = one_noise and len(ssm.states) == 1 and is_complete(layout, observation)
    segments = history.segments
    now = segments[-1].filter if segments else None
    network = one_noise and suits_network(
        ssm, layout.x, history.plan, observation, _recent_gaps(history, observation), now
    )
    stays = isinstance(now, RotatedFilter) or network == isinstance(now, NetworkFilter)
    if now is not None and stays and now.takes(len(layout.x), rotated):
        filter, before, first = now, segments[-1].observations, segments[-1].first
        segments = segments[:-1]
    else:
        there = now.sites if now is not None else len(np.unique(snapshot.x, axis=0))
        times = [one.t for one in history.snapshots]
        size = room_for(layout, there)
        if rotated and now is None:
            filter = RotatedFilter(ssm, layout.x, layout.axes)
        elif network:
            history = history._replace(plan=history.plan.for_sites(len(layout.x)))
            filter = network_filter(ssm, layout.x, size, history.plan, times, observation.context)
        else:
            filter = dense_filter(ssm, layout, size)
        before, first = (), len(history.snapshots)
    if isinstance(filter, NetworkFilter):
        laid = filter.sized(observation, _last_room(history))
    else:
        laid = with_table(ssm, filter.sized(observation))
    segment = Segment(filter, first, (*before, laid))
    return history._replace(
        segments=(*segments, segment),
        snapshots=(*history.snapshots, snapshot),
        linearised_snapshots=(*history.linearised_snapshots, linearised),
    )


def delay_window(history: Timeline, snapshot: Snapshot) -> int:
    """How many snapshots the window of a filter with delays needs, under the widest slowness of the prior.

    0 where delays between the stations so far spread over less than the time between any two snapshots.
    """
    x = np.concatenate([history.layout.x, new_rows(history.layout.x, snapshot.x)])
    spread = delay_spread(history.ssm.model.kernel, x)
    times = np.array([one.t for one in (*history.snapshots, snapshot)])
    if not history.layout.window and np.diff(times).min(initial=np.inf) >= spread:
        return 0
    needed = window_needed(times, spread)
    if needed > MAX_WINDOW:
        raise DataError(
            f"OnlineSampler: t = {snapshot.t:g}: under the prior of the slowness the delays between the {len(x)} "
            f"stations spread over up to {spread:.4g}, and {needed} snapshots lie that close together, more than "
            f"{MAX_WINDOW}: give Delayed a prior with narrower bounds (ScaledSigmoid(-b, b)), or join snapshots close "
            "in time"
        )
    return needed


def _windowed(history: Timeline, snapshot: Snapshot, linearised: LinearisedSnapshot | None, window: int) -> Timeline:
    """All snapshots in a filter with a window, on the sites of all of them."""
    ssm, fresh = history.ssm, new_rows(history.layout.x, snapshot.x)
    layout = history._with_sites(fresh, snapshot) if len(fresh) else history.layout
    layout = layout._replace(
        window=max(window + 1, layout.window), why="stations at local times, closer in time than delays"
    )
    new = Timeline(ssm, history.latent, layout, (), (), (), rebuilt=True)
    for one, its in zip((*history.snapshots, snapshot), (*history.linearised_snapshots, linearised)):
        new = _appended(new, one, its)
    return new


def _last_room(history: Timeline) -> int:
    """For gaps, of the last snapshot."""
    last = history.segments[-1].observations[-1].gaps if history.segments else None
    return 0 if last is None else np.size(last)


def _recent_gaps(history: Timeline, observation: Observation) -> list[SiteGaps]:
    """How many sites each of the last snapshots left out, this one last; those since the filter changed."""
    sites = len(history.layout.x)
    found = [SiteGaps(sites - int(np.sum(observation.seen)), sites)]
    if history.segments:
        before, filter = history.segments[-1].observations[1 - WINDOW :], history.filter
        there = int(np.sum(filter.mask)) if isinstance(filter, (DenseFilter, NetworkFilter)) else filter.sites
        found = [SiteGaps(there - int(np.sum(one.seen)), there) for one in before] + found
    return found
