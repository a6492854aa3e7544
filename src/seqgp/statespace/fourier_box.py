"""Where a field that moves lives: Fourier modes of a periodic box around the data, and what they leave out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import DataError, ModelError
from seqgp.fields.sites import Observe
from seqgp.kernels.base import Parameters, within
from seqgp.kernels.separable import Advection, Separable
from seqgp.kernels.spectral import check_density, spectral_density
from seqgp.linalg.types import Array, ArrayLike
from seqgp.model import Model
from seqgp.statespace.model import StateSpaceModel

MAX_MODES = 128  # of a time kernel of order one; of order p by the root of p less
LEFT_OUT = 1e-3  # of the variance, at the centre of the priors
NEGLIGIBLE = 0.02  # a correlation, at the distance of periodic images
CANDIDATES = {1: (512,), 2: (40, 40), 3: (12, 12, 12)}  # waves along each side
MAX_ERROR = 0.1  # of the covariance, as a share of the variance, beyond which it is warned about
DISPLACEMENTS = 256  # at which the error is measured
SNAPSHOTS = 10  # the last ones, over whose times it is


class FourierBox(NamedTuple):
    """A box with its modes; a state of a field is ``(c_1 … c_m, s_1 … s_m)``."""

    low: Float[np.ndarray, " D"]  # the corner that phases are counted from
    box: Float[np.ndarray, " D"]  # the sides
    margin: Float[np.ndarray, " D"]  # from the data to their images
    wave: Float[np.ndarray, "m D"]

    @property
    def name(self) -> str:
        """``"Fourier modes (121)"``."""
        return f"Fourier modes ({len(self.wave)})"

    @property
    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """Where inputs may be: the rest of the margin keeps their images away."""
        return self.low + self.margin / 4, self.low + self.box - self.margin / 4

    def holds(self, x: Float[np.ndarray, "n D"]) -> bool:
        """Whether all inputs lie inside the domain."""
        low, high = self.domain
        return bool(((x >= low) & (x <= high)).all())

    def interpolate(self, x: Float[np.ndarray, "n D"]) -> Observe:
        """The way from the modes to inputs inside the domain."""
        low, high = self.domain
        outside = (x < low) | (x > high)
        if outside.any():
            i, d = np.argwhere(outside)[0]
            raise DataError(
                f"Advected: x[{i}, {d}] = {x[i, d]:g} is outside [{low[d]:g}, {high[d]:g}], where the Fourier modes "
                f"represent the field ({outside.any(axis=1).sum()} points are); give Advected margin= above "
                f"{4 * max(low[d] - x[i, d], x[i, d] - high[d]) + self.margin[d]:.3g}"
            )
        phase = (x - self.low) @ self.wave.T
        return Observe(weights=np.concatenate([np.cos(phase), np.sin(phase)], axis=1))

    def report(
        self, model: Model, z: Float[Array, " d"], x: Float[np.ndarray, "n D"], times: Float[np.ndarray, " T"]
    ) -> tuple[dict[str, float], list[str]]:
        """The error of the covariance at displacements of the data, and a warning where it is large.

        Args:
            model: the model.
            z: the parameters.
            x: inputs of the last snapshot.
            times: of the snapshots so far.
        """
        parameters = model.parameters(jnp.asarray(z))
        whole = sum(float(own["scale"]) ** 2 for _, _, own in _terms(model, parameters))
        kept = sum(
            float(jnp.sum(_variances(term, own, self.wave, self.box))) for term, _, own in _terms(model, parameters)
        )
        left_out = 1.0 - kept / whole
        error = max(abs(left_out), self._error(model, parameters, x, times) / whole)
        accuracy = {"modes": len(self.wave), "truncation_error": error, "variance_left_out": left_out}
        if error <= MAX_ERROR:
            return accuracy, []
        return accuracy, [
            f"the covariance of {len(self.wave)} Fourier modes is off by up to {error:.0%} of the variance "
            f"({left_out:.0%} is of shorter waves than they have): give Advected a smaller shortest= or a larger "
            "margin=, or take noise for what is finer"
        ]

    def _error(self, model: Model, parameters: Parameters, x: np.ndarray, times: np.ndarray) -> float:
        """The largest, against modes of twice the wave number on a box of twice the size."""
        rng = np.random.default_rng(0)
        i, j = rng.integers(len(x), size=(2, DISPLACEMENTS))
        h, lags = x[i] - x[j], times[-1] - times[-SNAPSHOTS:]
        u = lags[rng.integers(len(lags), size=DISPLACEMENTS)]
        most = np.round(np.abs(self.wave).max(axis=0) * self.box / (2 * np.pi)).astype(int)
        finer, wide = half_lattice(2 * self.box, (4 * most).tolist()), 2 * self.box
        found = np.zeros(DISPLACEMENTS)
        for term, drift, own in _terms(model, parameters):
            time = np.asarray(
                term.time.covariance(term.time.prepare(u[:, None], np.zeros((1, 1))), within(own, "time"))
            )
            each = [
                _covariance(wave, np.asarray(_variances(term, own, wave, box)), drift, parameters, h, u)
                for wave, box in ((self.wave, self.box), (finer, wide))
            ]
            found += time[:, 0] * (each[0] - each[1])
        return float(np.max(np.abs(found)))


def fourier_box(ssm: StateSpaceModel, x: Float[np.ndarray, "n D"]) -> FourierBox:
    """The box around inputs, and as many modes as the lengthscales at the centre of their priors ask for."""
    model, kernel = ssm.model, ssm.model.kernel
    for (prefix, term), drift in zip(kernel.terms(), kernel.drifts()):
        if drift is None:
            check_density(term.space, f"a term beside seqgp.Advected: {prefix}space")
    parameters = model.parameters(jnp.asarray(model.prior_of_z()[0]))
    terms, drifts = _terms(model, parameters), [one for one in kernel.drifts() if one is not None]
    given = [one.margin for one in drifts if one.margin is not None]
    reach = np.max([_reach(term, own, x.shape[1]) for term, _, own in terms], axis=0)
    margin = np.full(x.shape[1], max(given)) if given else reach
    box = np.ptp(x, axis=0) + margin
    shortest = min((one.shortest for one in drifts if one.shortest is not None), default=None)
    if shortest is not None:
        wave = wave_vectors(box, shortest)
    else:
        wave = _strongest(terms, box, int(MAX_MODES / np.sqrt(ssm.order)))
    return FourierBox(x.min(axis=0) - margin / 2, box, margin, wave)


def wave_vectors(box: Float[ArrayLike, " D"], shortest: float) -> Float[np.ndarray, "m D"]:
    """The wave vectors of a periodic box down to a shortest wavelength, one of each pair ``±k``, zero first."""
    box = np.asarray(box, float)
    if not (np.all(box > 0) and shortest > 0):
        raise ModelError(f"Advected: box = {box} and shortest = {shortest} must be positive lengths")
    if shortest > box.min():
        raise ModelError(
            f"Advected: shortest = {shortest:g} is longer than the box ({box.min():g}): no mode is left; lower it"
        )
    wave = half_lattice(box, [math.floor(side / shortest) for side in box])
    return wave[np.linalg.norm(wave, axis=1) <= 2 * np.pi / shortest * (1 + 1e-12)]


def half_lattice(box: Float[ArrayLike, " D"], most: Sequence[int]) -> Float[np.ndarray, "m D"]:
    """Wave vectors with at most so many waves along each side, one of each pair ``±k``, the longest waves first."""
    ranges = [np.arange(-count, count + 1) for count in most]
    index = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
    lead = np.take_along_axis(index, np.argmax(index != 0, axis=1)[:, None], axis=1)[:, 0]
    wave = 2 * np.pi * index[lead >= 0] / np.asarray(box, float)
    return wave[np.argsort(np.linalg.norm(wave, axis=1), kind="stable")]


def mode_cells(wave: Float[ArrayLike, "m D"], box: Float[ArrayLike, " D"]) -> Float[Array, " m"]:
    """What a spectral density is multiplied with to be the variance of a mode: ``k`` and ``−k`` are one mode."""
    pair = jnp.where(jnp.all(jnp.asarray(wave) == 0, axis=1), 1.0, 2.0)
    return pair * jnp.prod(2 * jnp.pi / jnp.asarray(box))


def _strongest(terms: list[tuple[Separable, Advection | None, Parameters]], box: np.ndarray, most: int) -> np.ndarray:
    """The modes with the largest variance, until they have nearly all of it."""
    wave = half_lattice(box, CANDIDATES[len(box)])
    variance = np.sum([np.asarray(_variances(term, own, wave, box)) for term, _, own in terms], axis=0)
    whole = sum(float(own["scale"]) ** 2 for _, _, own in terms)
    order = np.argsort(-np.round(variance / variance.max(), 12), kind="stable")
    enough = int(np.searchsorted(np.cumsum(variance[order]), (1 - LEFT_OUT) * whole)) + 1
    return wave[np.sort(order[: min(enough, most)])]


def _terms(model: Model, parameters: Parameters) -> list[tuple[Separable, Advection | None, Parameters]]:
    kernel = model.kernel
    return [
        (term, drift, within(parameters, prefix[:-1]) if prefix else parameters)
        for (prefix, term), drift in zip(kernel.terms(), kernel.drifts())
    ]


def _variances(
    term: Separable, own: Parameters, wave: Float[ArrayLike, "m D"], box: Float[ArrayLike, " D"]
) -> Float[Array, " m"]:
    """``w_k`` of a term."""
    return own["scale"] ** 2 * mode_cells(wave, box) * spectral_density(term.space, wave, within(own, "space"))


def _covariance(wave, variance, drift: Advection | None, parameters: Parameters, h, u) -> np.ndarray:
    """In space, and as it moves and spreads."""
    velocity = np.zeros(wave.shape[1]) if drift is None else np.asarray(parameters[drift.velocity])
    spread = 0.0 if drift is None else float(parameters[drift.diffusion])
    fade = np.exp(-spread * np.abs(u)[:, None] * np.sum(wave**2, axis=1))
    return np.sum(variance * fade * np.cos((h - u[:, None] * velocity) @ wave.T), axis=1)


def _reach(term: Separable, own: Parameters, dimension: int) -> Float[np.ndarray, " D"]:
    """Along each column, the distance at which the correlation is negligible."""
    distances, found = np.geomspace(1e-12, 1e12, 1201), []
    for d in range(dimension):
        points = np.zeros((len(distances), dimension))
        points[:, d] = distances
        prepared = term.space.prepare(jnp.zeros((1, dimension)), jnp.asarray(points))
        correlation = np.asarray(term.space.covariance(prepared, within(own, "space")))[0]
        found.append(distances[np.argmax(np.abs(correlation) < NEGLIGIBLE)])
    return np.array(found)
