"""The data so far as filters see them: where the sites are, and each snapshot laid on them.

The sites change rarely: when a station joins, when complete data become incomplete. A *segment* is a run of snapshots
with one filter; between segments the states are carried over exactly.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Context, Snapshot
from seqgp.fields.choice import DENSE_UP_TO, KNOTS_UP_TO
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid
from seqgp.fields.knots import KnotGrid, Knots
from seqgp.kernels.delayed import delay_spread
from seqgp.likelihoods.base import fill_missing
from seqgp.likelihoods.gaussian import STATION
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape
from seqgp.samplers.online.black_box import with_table
from seqgp.samplers.online.network import FIRST_PLAN, WINDOW, NetworkPlan, SiteGaps, network_filter, suits_network
from seqgp.samplers.online.quadratics import LinearisedSnapshot, QuadraticFit
from seqgp.statespace.advected import AdvectedFilter
from seqgp.statespace.delayed import DelayedFilter
from seqgp.statespace.delayed_window import DelayedWindowFilter, window_needed
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.fourier_box import FourierBox, fourier_box
from seqgp.statespace.modal import ModalFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Observation, SiteOperator, reduced
from seqgp.statespace.protocol import Filter

MAX_WINDOW = 40  # snapshots in the window of a filter with delays
REPLAYED_SITES = 400  # from which a covariance written out costs more than a filter run anew over
REPLAYED_SNAPSHOTS = 64  # of them at most
MAX_LOST_VARIANCE = 1e-5  # of the prior variance may be left out by the modes of knots


class Segment(NamedTuple):
    """Snapshots with one filter."""

    filter: Filter
    first: int  # how many snapshots came before
    observations: tuple[Observation, ...]


class SiteLayout(NamedTuple):
    """Where the latent lives: stations seen so far (or the points of a grid), or knots."""

    x: np.ndarray  # (M, D): sites in use
    axes: tuple[np.ndarray, ...] | None  # of a product grid
    knots: KnotGrid | FourierBox | None
    why: str
    window: int = 0  # of kernels with a delay: snapshots in the filter's window; 0 where it needs none

    @property
    def name(self) -> str:
        """In a word."""
        if isinstance(self.knots, FourierBox):
            return self.knots.name
        if self.knots is not None:
            return "knots"
        return "stations" if self.axes is None else "grid (Kronecker)"


class Timeline(NamedTuple):
    """All snapshots so far, laid out."""

    ssm: StateSpaceModel
    latent: Any  # what the user asked for
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
        return self.latent == "auto" and moving and len(self.layout.x) > 8 and _suits_knots(self.ssm.model, snapshot.x)

    def _with_sites(self, fresh: np.ndarray, snapshot: Snapshot) -> SiteLayout:
        if isinstance(self.latent, Grid):
            raise DataError(
                f"Grid: {len(fresh)} points of x at t = {snapshot.t} are not of the first snapshot; use latent='auto' "
                "for stations that come and go, seqgp.Knots(…) for inputs that move"
            )
        x = np.concatenate([self.layout.x, fresh])
        return self.layout._replace(x=x, axes=None)


def check_latent(latent: Any) -> None:
    """Raise unless it says where the latent lives."""
    if not (isinstance(latent, (Dense, Grid, Knots)) or (isinstance(latent, str) and latent == "auto")):
        raise SamplerError(f"latent = {latent!r}: expected 'auto', seqgp.Dense(), seqgp.Grid() or seqgp.Knots(…)")


def begin(
    ssm: StateSpaceModel,
    latent: Any,
    snapshot: Snapshot,
    linearised: LinearisedSnapshot | None = None,
    plan: NetworkPlan = FIRST_PLAN,
) -> Timeline:
    """The history of a first snapshot: chooses where the latent lives."""
    layout = _first_layout(ssm, latent, snapshot.x)
    return _appended(Timeline(ssm, latent, layout, (), (), (), rebuilt=False, plan=plan), snapshot, linearised)


def build_timeline(
    ssm: StateSpaceModel,
    latent: Any,
    snapshots: Any,
    linearised_snapshots: Any,
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
        layout = _first_layout(ssm, latent, x)
        empty = Timeline(ssm, latent, layout, (), (), (), rebuilt=False, plan=plan)
        history = _appended(empty, snapshots[0], linearised_snapshots[0])
    for snapshot, linearised in zip(snapshots[1:], linearised_snapshots[1:]):
        history = history.with_snapshot(snapshot, linearised)
    return history


def first_filter(ssm: StateSpaceModel, latent: Any, x: np.ndarray) -> tuple[SiteLayout, DenseFilter]:
    """Where the latent of a first snapshot lives, and a filter of it that has seen nothing."""
    layout = _first_layout(ssm, latent, x)
    return layout, dense_filter(ssm, layout, len(layout.x))


def _first_layout(ssm: StateSpaceModel, latent: Any, x: np.ndarray) -> SiteLayout:
    kernel = ssm.model.kernel
    terms = [term for _, term in kernel.terms()]
    if kernel.delayed:
        if isinstance(latent, (Grid, Knots)):
            raise SamplerError(
                f"OnlineSampler: latent = {type(latent).__name__}(…) does not take seqgp.Delayed, whose stations have "
                "local times of their own: use latent='auto' or seqgp.Dense()"
            )
        return SiteLayout(_each_once(x), None, None, "stations as they come, each at its local time")
    if kernel.advected:
        if latent != "auto":
            raise SamplerError(
                f"OnlineSampler: latent = {type(latent).__name__}(…) does not take seqgp.Advected, whose field moves "
                "on Fourier modes: use latent='auto'"
            )
        return SiteLayout(x[:0], None, fourier_box(ssm, x), "a field that moves")
    if isinstance(latent, Knots):
        return SiteLayout(x, None, latent.resolve(terms[0], x), "asked for")
    grid = Grid().resolve(terms[0], x)
    if grid.axes is not None and len(terms) == 1 and not isinstance(latent, Dense):
        return SiteLayout(grid.points, grid.axes, None, "x is a product grid and the kernel a product over its axes")
    if latent == "auto" and len(x) > DENSE_UP_TO and _suits_knots(ssm.model, x):
        return SiteLayout(x, None, Knots().resolve(terms[0], x), f"a smooth kernel, and more than {DENSE_UP_TO} points")
    return SiteLayout(_each_once(x), None, None, "stations as they come")


def _each_once(x: np.ndarray) -> np.ndarray:
    unique = np.unique(x, axis=0)
    return unique if len(unique) < len(x) else x


def _suits_knots(model: Model, x: np.ndarray) -> bool:
    """Whether the latent can be interpolated from a few knots: all its terms are smooth, and columns of ``x`` few."""
    return (
        not (model.kernel.moving or model.likelihood.by_station)
        and x.shape[1] <= KNOTS_UP_TO
        and all(term.space.smooth for _, term in model.kernel.terms())
    )


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
    one_noise = layout.knots is None and not ssm.model.kernel.moving and _one_noise_level(ssm, snapshot)
    rotated = one_noise and len(ssm.states) == 1 and _complete(layout, observation)
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
        size = _room(layout, there)
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


def dense_filter(ssm: StateSpaceModel, layout: SiteLayout, size: int) -> DenseFilter:
    """The filter of any data, missing ones too: on the sites, padded to a number of them, or on knots."""
    if isinstance(layout.knots, FourierBox):
        return AdvectedFilter(ssm, layout.knots)
    if layout.knots is not None:
        return ModalFilter(ssm, layout.knots.points, _modes(ssm, layout.knots.points))
    count = len(layout.x)
    x = np.concatenate([layout.x, np.repeat(layout.x[-1:], size - count, axis=0)])
    real = np.arange(size) < count
    if layout.window:
        return DelayedWindowFilter(ssm, x, real, real, layout.window)
    return (DelayedFilter if ssm.model.kernel.delayed else DenseFilter)(ssm, x, real)


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


def _room(layout: SiteLayout, there: int) -> int:
    """Of sites: room for stations to come, once there are more than at first, because each growth is a compilation."""
    count = len(layout.x)
    return count if there == count else -(-count // 8) * 8


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


def _modes(ssm: StateSpaceModel, knots: np.ndarray) -> int:
    """How many eigenvectors are needed where the prior is rough: at lengthscales that are short for it."""
    mean, sd = ssm.particle_prior()
    space = np.array(["space" in name for name in ssm.names])
    most = 1
    for sign in (-1.645, 1.645):
        parameters = ssm.parameters(jnp.asarray(np.where(space, mean + sign * sd, mean)))
        points = jnp.asarray(knots)
        spaces = [np.asarray(one) for one in ssm.space(parameters, ssm.distances(points, points))]
        for matrix in (*spaces, sum(spaces)):  # the eigenvectors are those of the sum, and serve each term
            values = np.linalg.eigvalsh(matrix)[::-1]
            left = 1 - np.cumsum(values) / values.sum()
            most = max(most, int(np.argmax(left < MAX_LOST_VARIANCE)) + 1)
    return min(len(knots), -(-most // 4) * 4)


def observation_of(
    ssm: StateSpaceModel, layout: SiteLayout, snapshot: Snapshot, dt: float, linearised: LinearisedSnapshot | None
) -> Observation:
    """A snapshot laid on the sites, a time ``dt`` after the one before it."""
    filled, missing = (part.reshape(-1) for part in fill_missing(snapshot.y))
    columns = ssm.columns(snapshot.t, snapshot.x, snapshot.context)
    none, operator = np.zeros(()), operator_of(layout, snapshot.x)
    context = context_on(ssm, layout, snapshot)
    observation = Observation(
        np.asarray(dt, float), operator, filled, ~missing, ssm.design(columns), columns, none, none, context,
        t=np.asarray(snapshot.t, float),
    )  # fmt: skip
    if linearised is not None:
        return observation._replace(line=linearised.line)
    many = layout.knots is not None and _one_noise_level(ssm, snapshot)
    return reduced(observation) if many else observation


def context_on(ssm: StateSpaceModel, layout: SiteLayout, snapshot: Snapshot) -> Any:
    """What the likelihood takes besides the data: their context, and which station each is of."""
    likelihood = ssm.model.likelihood
    context = likelihood.context_at(snapshot.t, snapshot.context)
    if not likelihood.by_station:
        return context
    return {**(context or {}), STATION: operator_of(layout, snapshot.x).index}


def operator_of(layout: SiteLayout, x: np.ndarray) -> SiteOperator:
    """Where known inputs lie among the sites."""
    if layout.knots is None:
        return SiteOperator(index=_rows_in(layout.x, x))
    return SiteOperator(weights=np.asarray(layout.knots.interpolate(x).weights))


def all_known(layout: SiteLayout, x: np.ndarray) -> bool:
    """Whether inputs have places among the sites."""
    return layout.knots is not None or not len(new_rows(layout.x, x))


def _one_noise_level(ssm: StateSpaceModel, snapshot: Snapshot) -> bool:
    likelihood = ssm.model.likelihood
    if not likelihood.conjugate or likelihood.by_station:
        return False
    context = likelihood.context_at(snapshot.t, snapshot.context)
    return cached_by_shape(_noise_shape, ssm, context) == ()


def _noise_shape(ssm: StateSpaceModel, context: Context) -> tuple[int, ...]:
    mean = ssm.particle_prior()[0]
    return jax.eval_shape(lambda z: ssm.model.likelihood.noise(context, ssm.parameters(z)), mean).shape


def _complete(layout: SiteLayout, observation: Observation) -> bool:
    return bool(observation.seen.all()) and np.array_equal(
        np.sort(np.asarray(observation.operator.index)), np.arange(len(layout.x))
    )


def _rows_in(sites: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The number of the site of each row of ``x``."""
    number = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(sites))}
    return np.array([number[row.tobytes()] for row in np.ascontiguousarray(x)], dtype=int)


def new_rows(sites: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The rows of ``x`` that are not among the sites, each once, in their order."""
    known = {row.tobytes() for row in np.ascontiguousarray(sites)}
    fresh = {row.tobytes(): row for row in np.ascontiguousarray(x) if row.tobytes() not in known}
    return np.array(list(fresh.values())).reshape(-1, sites.shape[1])
