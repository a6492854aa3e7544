"""A noise for each station: ratios of precisions that belong to the particles, beside ``z``.

A particle is ``(z, λ)``: station ``i`` has the noise ``noise / √λ_i``, and ``λ_i ~ Gamma(a, a)`` with the concentration
``a`` of the particle. Particles keep ``log λ`` in columns after those of ``z``, with room for stations to come, whose
ratios are draws from the population. So a snapshot reweights a particle by the exact density of its data, and a station
that joins begins with its prior. :mod:`seqgp.samplers.online.station_moves` rejuvenates them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SamplerError
from seqgp.fields.knots import Knots
from seqgp.likelihoods.gaussian import CONCENTRATION, RATIOS
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.samplers.online.filters import Filters
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.layout import SiteLayout, new_rows
from seqgp.statespace.model import StateSpaceModel

ROOM = 8  # stations by which the room for their ratios grows
SMALLEST = 1e-200  # of a ratio


class StationNoise(NamedTuple):
    """The standard deviation of each station's noise."""

    x: Float[np.ndarray, "M D"]  # the stations
    names: tuple[str, ...]  # from the context or the labels of rows; else where they are
    noise: Float[np.ndarray, "draws M"]

    def thinned(self, index: np.ndarray) -> StationNoise:
        """Of some of the draws."""
        return self._replace(noise=self.noise[index])

    def at(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "draws n"]:
        """At inputs that are stations."""
        number = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(self.x))}
        return self.noise[:, [number[row.tobytes()] for row in np.ascontiguousarray(x)]]

    def table(self) -> list[tuple[str, float, float, float]]:
        """Name, median, and ends of the central 95% of each station, the noisiest first."""
        low, middle, high = np.quantile(self.noise, [0.025, 0.5, 0.975], axis=0)
        order = np.argsort(-middle, kind="stable")
        return [(self.names[i], float(middle[i]), float(low[i]), float(high[i])) for i in order]

    def lines(self, most: int = 20) -> list[str]:
        """The table as text, with so many stations at most."""
        rows = self.table()
        width = max(len("noise of station"), *(len(name) for name, *_ in rows[:most]))
        head = f"{'noise of station':{width}}{'50%':>11}{'2.5%':>11}{'97.5%':>11}"
        body = [f"{name:{width}}" + "".join(f"{one:>11.4g}" for one in values) for name, *values in rows[:most]]
        rest = [f"{len(rows) - most} more stations have less noise"] if len(rows) > most else []
        return [head, *body, *rest]


def check_by_station(model: Model, history: int | None, forget: float, latent: object) -> None:
    """Raise, by name, where noises of stations do not go with another choice."""
    if not model.likelihood.by_station:
        return
    clash = {
        "history=: the noises of stations need all data": history is not None,
        "forget: a past that is discounted": forget != 1,
        "latent=Knots(…): inputs that move are no stations": isinstance(latent, Knots),
        "seqgp.Delayed: its stations have local times": model.kernel.delayed,
        "seqgp.Advected: inputs that move are no stations": model.kernel.advected,
        "several processes of jax.distributed": jax.process_count() > 1,
    }
    for what, there in clash.items():
        if there:
            raise SamplerError(f"OnlineSampler: by='station' does not take {what}: leave one of the two out")


def values_of(ssm: StateSpaceModel, name: str, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
    """A parameter of each particle."""
    run, _ = compiled(_values, ssm, name, z[:, : len(ssm.in_particles)])
    return np.asarray(run())


def _values(ssm: StateSpaceModel, name: str, z):
    return jax.vmap(lambda one: ssm.parameters(one)[name] * jnp.ones(()))(z)


def with_station_room(
    ssm: StateSpaceModel, rng: np.random.Generator, z: Float[np.ndarray, "S n"], stations: int
) -> Float[np.ndarray, "S n"]:
    """Particles with ratios for so many stations at least; new ones are drawn from each particle's population."""
    more = -(-stations // ROOM) * ROOM - (z.shape[1] - len(ssm.in_particles))
    if more <= 0:
        return z
    return np.concatenate([z, log_population(rng, values_of(ssm, CONCENTRATION, z), more)], axis=1)


def log_population(
    rng: np.random.Generator, concentration: Float[np.ndarray, " S"], count: int
) -> Float[np.ndarray, "S count"]:
    """Logarithms of ratios of stations without data."""
    drawn = rng.standard_gamma(concentration[:, None], (len(concentration), count)) / concentration[:, None]
    return np.log(np.maximum(drawn, SMALLEST))


def stations_after(history: Timeline | None, x: Float[np.ndarray, "n D"]) -> int:
    """The number of stations once data at ``x`` are there."""
    if history is None:
        return len(np.unique(x, axis=0))
    known = history.layout.x
    return len(known) + len(new_rows(known, x))


def with_ratios(filters: Filters, log_ratios: Float[np.ndarray, "S K"]) -> Filters:
    """The filters of particles with other ratios; what they have seen stays."""
    groups, first = [], 0
    for matrices, state in filters.groups:
        count = len(jax.tree.leaves(state)[0])
        ratios = np.exp(log_ratios[first : first + count])
        groups.append((matrices._replace(parameters=matrices.parameters | {RATIOS: ratios}), state))
        first += count
    return filters._replace(groups=tuple(groups))


def log_ratios_at(
    ssm: StateSpaceModel, layout: SiteLayout, z: Float[np.ndarray, "S n"], x: Float[np.ndarray, "k D"]
) -> Float[np.ndarray, "S k"]:
    """Of each particle at inputs: those of known stations, and of new places draws from the population."""
    number = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(layout.x))}
    known = np.array([number.get(row.tobytes(), -1) for row in np.ascontiguousarray(x)])
    log_ratios, new = z[:, len(ssm.in_particles) :], known < 0
    found = log_ratios[:, np.maximum(known, 0)]
    if new.any():
        _, which = np.unique(x[new], axis=0, return_inverse=True)
        drawn = log_population(np.random.default_rng(0), values_of(ssm, CONCENTRATION, z), int(which.max()) + 1)
        found[:, new] = drawn[:, which.reshape(-1)]
    return found


def station_noise_of(ssm: StateSpaceModel, history: Timeline, z: Float[np.ndarray, "draws n"]) -> StationNoise:
    """Of draws of particles."""
    x, d = history.layout.x, len(ssm.in_particles)
    noise = values_of(ssm, "noise", z)[:, None] * np.exp(-0.5 * z[:, d : d + len(x)])
    return StationNoise(x, _names(history, x), noise)


def _names(history: Timeline, x: Float[np.ndarray, "M D"]) -> tuple[str, ...]:
    named: dict[bytes, str] = {}
    for snapshot in history.snapshots:
        names = snapshot.context.get("station") if isinstance(snapshot.context, dict) else None
        names = getattr(snapshot, "labels", None) if names is None else names
        if names is not None:
            rows = np.ascontiguousarray(snapshot.x)
            named |= {row.tobytes(): str(name) for row, name in zip(rows, np.broadcast_to(names, len(rows)))}
    return tuple(named.get(row.tobytes(), ", ".join(f"{v:.6g}" for v in row)) for row in np.ascontiguousarray(x))
