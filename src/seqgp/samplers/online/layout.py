"""Where the latent function lives, and a snapshot laid there."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Context, Snapshot
from seqgp.fields.choice import DENSE_UP_TO, KNOTS_UP_TO
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid
from seqgp.fields.knots import KnotGrid, Knots
from seqgp.likelihoods.base import fill_missing
from seqgp.likelihoods.gaussian import STATION
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape
from seqgp.samplers.online.quadratics import LinearisedSnapshot
from seqgp.statespace.advected import AdvectedFilter
from seqgp.statespace.delayed import DelayedFilter
from seqgp.statespace.delayed_window import DelayedWindowFilter
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.fourier_box import FourierBox, fourier_box
from seqgp.statespace.modal import ModalFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, SiteOperator, reduced

MAX_LOST_VARIANCE = 1e-5  # of the prior variance may be left out by the modes of knots

LatentOption = str | Dense | Grid | Knots  # where the user wants the latent to live; the one word is "auto"


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


def check_latent(latent: object) -> None:
    """Raise unless it says where the latent lives."""
    if not (isinstance(latent, (Dense, Grid, Knots)) or (isinstance(latent, str) and latent == "auto")):
        raise SamplerError(f"latent = {latent!r}: expected 'auto', seqgp.Dense(), seqgp.Grid() or seqgp.Knots(…)")


def first_filter(ssm: StateSpaceModel, latent: LatentOption, x: np.ndarray) -> tuple[SiteLayout, DenseFilter]:
    """Where the latent of a first snapshot lives, and a filter of it that has seen nothing."""
    layout = first_layout(ssm, latent, x)
    return layout, dense_filter(ssm, layout, len(layout.x))


def first_layout(ssm: StateSpaceModel, latent: LatentOption, x: np.ndarray) -> SiteLayout:
    """Where the latent of a first snapshot lives: as the user wants it, or as suits kernel and inputs."""
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
    if latent == "auto" and len(x) > DENSE_UP_TO and suits_knots(ssm.model, x):
        return SiteLayout(x, None, Knots().resolve(terms[0], x), f"a smooth kernel, and more than {DENSE_UP_TO} points")
    return SiteLayout(_each_once(x), None, None, "stations as they come")


def _each_once(x: np.ndarray) -> np.ndarray:
    unique = np.unique(x, axis=0)
    return unique if len(unique) < len(x) else x


def suits_knots(model: Model, x: np.ndarray) -> bool:
    """Whether the latent can be interpolated from a few knots: all its terms are smooth, and columns of ``x`` few."""
    return (
        not (model.kernel.moving or model.likelihood.by_station)
        and x.shape[1] <= KNOTS_UP_TO
        and all(term.space.smooth for _, term in model.kernel.terms())
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


def room_for(layout: SiteLayout, there: int) -> int:
    """Of sites: room for stations to come, once there are more than at first, because each growth is a compilation."""
    count = len(layout.x)
    return count if there == count else -(-count // 8) * 8


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
    many = layout.knots is not None and one_noise_level(ssm, snapshot)
    return reduced(observation) if many else observation


def context_on(ssm: StateSpaceModel, layout: SiteLayout, snapshot: Snapshot) -> Context:
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


def one_noise_level(ssm: StateSpaceModel, snapshot: Snapshot) -> bool:
    """Whether data are Gaussian, and all of a snapshot have the same noise."""
    likelihood = ssm.model.likelihood
    if not likelihood.conjugate or likelihood.by_station:
        return False
    context = likelihood.context_at(snapshot.t, snapshot.context)
    return cached_by_shape(_noise_shape, ssm, context) == ()


def _noise_shape(ssm: StateSpaceModel, context: Context) -> tuple[int, ...]:
    mean = ssm.particle_prior()[0]
    return jax.eval_shape(lambda z: ssm.model.likelihood.noise(context, ssm.parameters(z)), mean).shape


def is_complete(layout: SiteLayout, observation: Observation) -> bool:
    """Whether each site has one datum."""
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
