"""Any stationary kernel of time as a state, fitted, with its error.

``kernel_state`` writes the correlation as a sum of decaying oscillations (``seqgp.kernels.rational``). An
inferred variance is exact, and so is an inferred parameter that only stretches time, such as a lengthscale. Other
parameters change the shape: the fits on a grid of their values share one drift, and the stationary covariance is
interpolated linearly between them, which keeps it a covariance.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from seqgp.base.errors import ModelError
from seqgp.base.identity import describe, undescribed
from seqgp.base.priors import Parameters, Prior
from seqgp.kernels.rational import MAX_ORDER, SharedDrift, shared_drift

if TYPE_CHECKING:
    from seqgp.kernels.base import Kernel

CORRELATION_TOLERANCE = 3e-4  # of a correlation: the lowest order that reaches it is taken
MAX_CORRELATION_ERROR = 2e-2  # of a correlation, beyond which a kernel is refused
NEGLIGIBLE_CORRELATION = 1e-4
# In distances at which the correlation is 1/2: up to there it is matched, and the error holds up to twice that.
MAX_DISTANCE = 60.0
PRIOR_REACH = 3.0  # prior standard deviations of ``z`` that the values of a shape parameter cover
NUM_SHAPE_VALUES = {0: (), 1: (17,), 2: (9, 9)}  # values of each shape parameter
COARSE_STRIDE = 4  # of these values one in so many tells which order is enough
STRETCH_TOLERANCE = 1e-8  # of a correlation, to which a stretch is exact


class FittedState(eqx.Module):
    """A fitted kernel as a state; beyond the values of ``grid`` a shape parameter is held at the nearest one."""

    kernel: Kernel
    rates: Complex[np.ndarray, " p"]
    basis: Complex[np.ndarray, "p p"]
    inverse: Complex[np.ndarray, "p p"]
    output: Float[np.ndarray, " p"]
    table: Float[np.ndarray, "*nodes p p"]  # stationary covariances of unit variance, at the values of the grid
    grid: tuple[np.ndarray, ...]  # logarithms of the values where those are positive
    shapes: tuple[str, ...] = eqx.field(static=True)
    logs: tuple[bool, ...] = eqx.field(static=True)
    stretch: str | None = eqx.field(static=True)
    unit: float = eqx.field(static=True)  # of time, where the stretch is 1
    error: float = eqx.field(static=True)  # the largest of the correlation

    @property
    def order(self) -> int:
        """The number of components."""
        return self.output.shape[0]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The values of each shape parameter that the fit covers."""
        ends = [(nodes[0], nodes[-1]) for nodes in self.grid]
        return {
            name: (float(np.exp(a)), float(np.exp(b))) if log else (float(a), float(b))
            for name, (a, b), log in zip(self.shapes, ends, self.logs)
        }

    def observe(self, parameters: Parameters) -> Float[Array, " p"]:
        """A mixture of all components."""
        return jnp.asarray(self.output)

    def stationary(self, parameters: Parameters) -> Float[Array, "p p"]:
        """The kernel's variance times the interpolated covariance."""
        found = jnp.asarray(self.table)
        for name, nodes, log in zip(self.shapes, self.grid, self.logs):
            value = jnp.log(parameters[name]) if log else jnp.asarray(parameters[name])
            nodes = jnp.asarray(nodes)
            value = jnp.clip(value, nodes[0], nodes[-1])
            cell = jnp.clip(jnp.searchsorted(nodes, value) - 1, 0, nodes.shape[0] - 2)
            share = (value - nodes[cell]) / (nodes[cell + 1] - nodes[cell])
            found = (1 - share) * found[cell] + share * found[cell + 1]
        origin = jnp.zeros((1, 1))
        return self.kernel.covariance(self.kernel.prepare(origin, origin), parameters)[0, 0] * found

    def transition(self, parameters: Parameters, dt) -> Float[Array, "p p"]:
        """``V exp(−rates u) V⁻¹`` with ``u`` the time in units."""
        u = jnp.asarray(dt) / self.unit
        u = u if self.stretch is None else u / parameters[self.stretch]
        growth = jnp.exp(-jnp.asarray(self.rates) * u.astype(complex))
        return jnp.real((jnp.asarray(self.basis) * growth[None, :]) @ jnp.asarray(self.inverse))


Numbers = dict[str, np.ndarray | float]  # parameters before they are arrays of JAX
_FITTED: dict[tuple, FittedState] = {}


def kernel_state(kernel: Kernel, least: int = 1, tolerance: float = CORRELATION_TOLERANCE) -> FittedState:
    """The state of the lowest order whose correlation is within the tolerance of the kernel's; else the best.

    Args:
        kernel: a stationary kernel of time; it decays.
        least: the lowest order that is tried.
        tolerance: of the correlation; ``state.error`` says what was reached, up to 120 times the distance at which
            the correlation is 1/2 and for the values of shape parameters within three prior standard deviations.
    """
    key = describe(kernel), least, tolerance
    if key in _FITTED:
        return _FITTED[key]
    with jax.enable_x64(True), jax.ensure_compile_time_eval():  # a model may be made inside a trace
        found = _fitted(kernel, least, tolerance)
    if not undescribed(kernel):
        _FITTED[key] = found
    return found


class _Roles(NamedTuple):
    """What each inferred parameter does to the correlation; those that do nothing are not named."""

    stretch: str | None
    shapes: tuple[str, ...]


def _fitted(kernel: Kernel, least: int, tolerance: float) -> FittedState:
    name, middle = type(kernel).__name__, values_at(kernel, 0.0)
    roles = _roles(kernel)
    if len(roles.shapes) not in NUM_SHAPE_VALUES:
        raise ModelError(
            f"{name} in time has {len(roles.shapes)} inferred parameters that change its shape "
            f"({', '.join(roles.shapes)}), and at most two can be interpolated: give numbers for the others, or use "
            "seqgp.SequentialSampler"
        )
    fit = _Fit(
        kernel,
        roles,
        middle,
        [_nodes(kernel, *each) for each in zip(roles.shapes, NUM_SHAPE_VALUES[len(roles.shapes)])],
    )
    orders = range(max(least, 4), MAX_ORDER + 1, 2) if roles.shapes else range(least, MAX_ORDER + 1)
    tried: list[FittedState] = []
    for order in orders:
        found = fit.state(order, every=COARSE_STRIDE)
        tried += [] if found is None else [found]
        if found is not None and found.error <= tolerance:
            break
    tried.sort(key=lambda one: one.error)
    return _accepted(name, fit.refined(tried) if roles.shapes else tried[:1], roles)


class _Fit:
    """States of a kernel, fitted at values ``nodes`` of its shape parameters."""

    def __init__(self, kernel: Kernel, roles: _Roles, middle: Numbers, nodes: list[np.ndarray]):
        self.kernel, self.roles, self.middle = kernel, roles, middle
        self.logs = tuple(bool(values[0] > 0) for values in nodes)
        self.grid = tuple(np.log(values) if log else values for values, log in zip(nodes, self.logs))
        name, each = type(kernel).__name__, [self.correlation(point) for point in itertools.product(*self.grid)]
        self.unit = min(_half_distance(name, one) for one in each)
        self.reach = max(_reach(name, self.scaled(one)) for one in each)

    def correlation(self, point: tuple[float, ...]) -> Callable[[np.ndarray], np.ndarray]:
        """At a point of the grid."""
        return correlation_at(self.kernel, self.parameters(point))

    def parameters(self, point: tuple[float, ...]) -> Numbers:
        """At a point of the grid."""
        values = (float(np.exp(one)) if log else float(one) for one, log in zip(point, self.logs))
        return self.middle | dict(zip(self.roles.shapes, values))

    def scaled(self, correlation: Callable) -> Callable[[np.ndarray], np.ndarray]:
        """A correlation as a function of the distance in units."""
        return lambda u: correlation(self.unit * u)

    def state(self, order: int, every: int = 1) -> FittedState | None:
        """The state of an order, with its largest error; ``None`` where there is no such state.

        Args:
            order: the number of components.
            every: where it is above 1, only so many of the values are fitted, and the error is that at those.
        """
        grid = tuple(nodes[::every] for nodes in self.grid)
        points = list(itertools.product(*grid))
        try:
            drift = shared_drift([self.scaled(self.correlation(point)) for point in points], order, self.reach)
        except (ModelError, np.linalg.LinAlgError, ValueError):
            return None  # this order has no such state; others have
        stretched = 1.0 if self.roles.stretch is None else self.middle[self.roles.stretch]
        table = np.stack(drift.stationary).reshape(*(len(nodes) for nodes in grid), order, order)
        state = FittedState(
            self.kernel, drift.rates, drift.basis, drift.inverse, drift.output, table, grid,
            self.roles.shapes, self.logs, self.roles.stretch, float(self.unit / stretched), 0.0,
        )  # fmt: skip
        if every == 1:
            points = itertools.product(*(np.sort([*nodes, *(nodes[1:] + nodes[:-1]) / 2]) for nodes in grid))
        return dataclasses.replace(state, error=max(self.error(state, drift, point) for point in points))

    def refined(self, coarse: list[FittedState]) -> list[FittedState]:
        """The best state with all values of the shape parameters, from those with few, the most accurate first."""
        best: list[FittedState] = []
        for one in coarse:
            found = self.state(one.order)
            if found is not None and (not best or found.error < best[0].error):
                best = [found]
            if best and best[0].error <= 2 * one.error + CORRELATION_TOLERANCE:
                break
        return best

    def error(self, state: FittedState, drift: SharedDrift, point: tuple[float, ...]) -> float:
        """The largest error of the correlation at a point of the grid."""
        distances = np.concatenate([np.geomspace(1e-3, 1.0, 40), np.linspace(0.0, 2 * self.reach, 1601)])
        moved = ((drift.output @ drift.basis)[None, :] * np.exp(-np.outer(distances, drift.rates))) @ drift.inverse
        stationary = np.asarray(state.stationary(_arrays(self.parameters(point)))) @ drift.output
        achieved = np.real(moved) @ stationary / (drift.output @ stationary)
        return float(np.abs(achieved - self.correlation(point)(self.unit * distances)).max())


def _accepted(name: str, best: list[FittedState], roles: _Roles) -> FittedState:
    if best and best[0].error <= MAX_CORRELATION_ERROR:
        return best[0]
    off = f"the best is off by {best[0].error:.2g}" if best else "none was found"
    narrow = f"narrow the prior of {' and of '.join(roles.shapes)}, " if roles.shapes else ""
    raise ModelError(
        f"{name} in time has no state of an order up to {MAX_ORDER} within {MAX_CORRELATION_ERROR:g} of its "
        f"correlation ({off}): {narrow}write it as a sum or product of the kernels in seqgp.kernels, or use "
        "seqgp.SequentialSampler (and "
        "check that it is positive definite)"
    )


def values_at(kernel: Kernel, shift: float) -> Numbers:
    """The parameters, inferred ones at so many prior standard deviations from the middle."""
    found: Numbers = {}
    for name, slot in kernel.slots().items():
        if isinstance(slot, tuple) and any(isinstance(entry, Prior) for entry in slot):
            raise ModelError(
                f"{type(kernel).__name__} in time has several inferred values under the name {name}, which are not "
                "known as a state: give each its own name, or use seqgp.SequentialSampler"
            )
        if isinstance(slot, Prior):
            slot = float(slot.value(jnp.asarray(slot.loc + shift * slot.scale)))
        found[name] = np.asarray(slot, float) if isinstance(slot, tuple) else float(slot)
    return found


def _nodes(kernel: Kernel, name: str, count: int) -> Float[np.ndarray, " count"]:
    """Values of a shape parameter, evenly spaced in their logarithms where they are positive."""
    ends = [float(values_at(kernel, shift)[name]) for shift in (-PRIOR_REACH, PRIOR_REACH)]
    low, high = min(ends), max(ends)
    return np.geomspace(low, high, count) if low > 0 else np.linspace(low, high, count)


def _arrays(parameters: Numbers) -> Parameters:
    return {name: jnp.asarray(value) for name, value in parameters.items()}


def correlation_at(kernel: Kernel, parameters: Numbers) -> Callable[[np.ndarray], np.ndarray]:
    """As a function of distances in time."""
    arrays, origin = _arrays(parameters), jnp.zeros((1, 1))

    def covariance(distance):
        prepared = kernel.prepare(jnp.asarray(np.asarray(distance, float))[:, None], origin)
        return np.asarray(kernel.covariance(prepared, arrays), float)[:, 0]

    variance = float(covariance(np.zeros(1))[0])
    if not (np.isfinite(variance) and variance > 0):
        raise ModelError(f"{type(kernel).__name__}: at distance 0 it is {variance}; it must be a positive variance")
    return lambda distance: covariance(distance) / variance


def _roles(kernel: Kernel) -> _Roles:
    """Tried numerically: whether a parameter leaves the correlation as it is, stretches it, or changes its shape."""
    inferred = [name for name, slot in kernel.slots().items() if isinstance(slot, Prior)]
    stretch, shapes = None, []
    for name in inferred:
        same, stretched = True, stretch is None
        for shift in (-0.6, 0.0, 0.9):
            values, changed = values_at(kernel, shift), values_at(kernel, shift + 0.7)[name]
            before, after = correlation_at(kernel, values), correlation_at(kernel, values | {name: changed})
            u = _half_distance(type(kernel).__name__, before) * np.linspace(0.05, 8.0, 60)
            same &= bool(np.abs(after(u) - before(u)).max() < STRETCH_TOLERANCE)
            ratio = changed / values[name] if values[name] else 0.0
            stretched &= ratio > 0 and bool(np.abs(after(u * ratio) - before(u)).max() < STRETCH_TOLERANCE)
        if same:
            continue
        if stretched:
            stretch = name
        else:
            shapes.append(name)
    return _Roles(stretch, tuple(shapes))


def _reach(name: str, correlation: Callable) -> float:
    """The distance beyond which nothing is left of a correlation, in units; at most ``MAX_DISTANCE``."""
    distance = np.linspace(0.0, MAX_DISTANCE, 6001)
    values = np.abs(correlation(distance))
    if not np.all(np.isfinite(values)) or values.max() > 1 + 1e-9:
        raise ModelError(f"{name} is not a covariance: it is not finite, or larger somewhere than at distance 0")
    beyond = np.flatnonzero(values > NEGLIGIBLE_CORRELATION)
    return max(float(distance[min(beyond[-1] + 1, len(distance) - 1)]), 4.0)


def _half_distance(name: str, correlation: Callable) -> float:
    """Where the correlation is 1/2 for the first time."""
    scales = np.geomspace(1e-8, 1e8, 3201)
    below = np.flatnonzero(correlation(scales) < 0.5)
    if not len(below) or below[0] == 0:
        raise ModelError(
            f"{name} in time does not decay from 1 to 1/2 at any distance between 1e-8 and 1e8, so it is not known as "
            "a state: a constant is seqgp.kernels.Constant, a cycle seqgp.kernels.Periodic; or use "
            "seqgp.SequentialSampler"
        )
    return float(scales[below[0]])
