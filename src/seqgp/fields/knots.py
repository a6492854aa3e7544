"""Knots: the latent on a fixed product grid, interpolated to wherever the data are.

``u_t = f(t, knots)`` has shared inputs at every step, and the data see ``W(x_t) u_t`` with an interpolation matrix that
does not depend on the kernel. Polynomial interpolation at Chebyshev nodes is close to machine precision for smooth
kernels; local cubic interpolation on a regular grid is the alternative for rough ones.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import DataError, SamplerError
from seqgp.fields.grid import SharedInputs, is_product
from seqgp.fields.protocol import PredictionSites
from seqgp.fields.sites import Observe, Sites
from seqgp.kernels.base import Parameters, within
from seqgp.kernels.separable import LatentKernel, dropped, one_term
from seqgp.linalg.types import Array
from seqgp.model import Model

MARGIN = 0.1  # of the range of the first snapshot's inputs, on each side, where no domain is given
DEFAULT_NODES = {1: (24,), 2: (12, 12), 3: (8, 8, 8), 4: (6, 6, 6, 6)}
ENOUGH = 0.999  # of the prior variance, at the data


class Knots(eqx.Module):
    """The latent function on a product grid of knots: any inputs, in any number, at a cost linear in N.

    Args:
        nodes: knots along each dimension of space (one number for all).
        domain: the box that all inputs lie in, ``[(low, high), …]``; the box of the first snapshot with a margin of a
            tenth by default.
        interpolation: ``"chebyshev"`` (smooth kernels) or ``"cubic"`` (rough ones: Matérn-1/2 and -3/2).
    """

    nodes: tuple[int, ...] | int | None = eqx.field(static=True)
    domain: tuple[tuple[float, float], ...] | None = eqx.field(static=True)
    interpolation: str = eqx.field(static=True)

    def __init__(
        self,
        nodes: int | Sequence[int] | None = None,
        domain: Sequence[tuple[float, float]] | None = None,
        interpolation: Literal["chebyshev", "cubic"] = "chebyshev",
    ):
        if interpolation not in ("chebyshev", "cubic"):
            raise SamplerError(f"Knots: interpolation = {interpolation!r}: expected 'chebyshev' or 'cubic'")
        least = 4 if interpolation == "cubic" else 2
        counts = [nodes] if isinstance(nodes, int) else list(nodes or [])
        if any(not isinstance(n, (int, np.integer)) or n < least for n in counts):
            raise SamplerError(f"Knots: nodes = {nodes!r}: expected at least {least} along each dimension")
        self.nodes = nodes if isinstance(nodes, int) or nodes is None else tuple(int(n) for n in nodes)
        self.domain = None if domain is None else tuple((float(low), float(high)) for low, high in domain)
        self.interpolation = interpolation
        for low, high in self.domain or ():
            if not low < high:
                raise SamplerError(f"Knots: domain ({low}, {high}): the lower end is not below the upper")

    def resolve(self, kernel: LatentKernel, x: np.ndarray) -> KnotGrid:
        """The knots for these first inputs."""
        kernel = one_term(kernel, "Knots")
        dimension = x.shape[1]
        if dimension > max(DEFAULT_NODES):
            raise SamplerError(f"Knots: x has {dimension} columns, at most {max(DEFAULT_NODES)} are supported")
        nodes = DEFAULT_NODES[dimension] if self.nodes is None else self.nodes
        nodes = (nodes,) * dimension if isinstance(nodes, int) else nodes
        domain = self.domain or _box_with_margin(x)
        for what, given in (("nodes", nodes), ("domain", domain)):
            if len(given) != dimension:
                raise SamplerError(f"Knots: {what} has {len(given)} entries, but x has {dimension} columns")
        place = chebyshev_nodes if self.interpolation == "chebyshev" else np.linspace
        lines = tuple(place(low, high, n) for (low, high), n in zip(domain, nodes))
        points = np.array(list(itertools.product(*lines)))
        try:
            kernel.space.check_inputs(points)
        except DataError as error:
            raise SamplerError(f"Knots: no inputs that the kernel takes ({error}); use latent=seqgp.Dense()") from error
        axes = lines if is_product(kernel, dimension) else None
        return KnotGrid(points=points, axes=axes, lines=lines, domain=domain, interpolation=self.interpolation)


class KnotGrid(SharedInputs):
    """``Knots``, resolved for a run."""

    lines: tuple[np.ndarray, ...]
    domain: tuple[tuple[float, float], ...] = eqx.field(static=True)
    interpolation: str = eqx.field(static=True)

    @property
    def name(self) -> str:
        """``"knots 12×12"``."""
        return "knots " + "×".join(str(len(line)) for line in self.lines)

    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The knots, seen by the data through ``W(x)``."""
        return Sites(self.points, np.ones(len(self.points), bool), self.interpolate(x))

    def prediction_sites(self, x: np.ndarray, now: bool) -> PredictionSites:
        """The knots again, which the window has where the time is that of the last snapshot."""
        return PredictionSites(self, self.points, self.interpolate(x), known=now)

    def holds(self, x: np.ndarray) -> bool:
        """Whether all inputs lie inside the domain."""
        low, high = np.array(self.domain).T
        return bool(((x >= low) & (x <= high)).all())

    def interpolate(self, x: np.ndarray) -> Observe:
        """The way from the knots to any inputs inside the domain."""
        for d, (low, high) in enumerate(self.domain):
            outside = (x[:, d] < low) | (x[:, d] > high)
            if outside.any():
                i = int(np.argmax(outside))
                raise DataError(
                    f"Knots: x[{i}, {d}] = {x[i, d]:g} is outside the domain [{low:g}, {high:g}] "
                    f"({outside.sum()} points are); set Knots(domain=…) wide enough for all data to come"
                )
        return Observe(weights=interpolation_matrix(self.lines, x, self.interpolation))

    def represented(self, kernel: LatentKernel, parameters: Parameters, x: np.ndarray) -> float:
        """The least share of the prior variance that the knots represent at ``x``, all terms of a sum together."""
        weights, points = interpolation_matrix(self.lines, x, self.interpolation), jnp.asarray(self.points)
        kept, whole = np.zeros(len(x)), np.zeros(len(x))
        for prefix, term in kernel.terms():
            own = dropped(parameters, prefix)
            covariance = np.asarray(term.space.covariance(term.space.prepare(points, points), within(own, "space")))
            kept += float(own["scale"]) ** 2 * np.sum((weights @ covariance) * weights, axis=1)
            whole += float(own["scale"]) ** 2 * (weights @ np.diag(covariance))
        return float(np.min(kept / whole))

    def enough_nodes(self, kernel: LatentKernel, parameters: Parameters, x: np.ndarray) -> tuple[int, ...] | None:
        """The fewest nodes (growing all dimensions alike) that would represent enough of the variance."""
        for extra in range(1, 25):
            nodes = tuple(len(line) + 2 * extra for line in self.lines)
            if int(np.prod(nodes)) > 4096:
                return None
            finer = Knots(nodes, self.domain, self.interpolation).resolve(kernel.terms()[0][1], x)  # type: ignore[arg-type]
            if finer.represented(kernel, parameters, x) >= ENOUGH:
                return nodes
        return None

    def report(self, model: Model, z: Float[Array, " d"], x: np.ndarray) -> tuple[dict[str, float], list[str]]:
        """The share of the prior variance that the knots represent at the data, and a remedy where it is too low."""
        kernel, parameters = model.kernel, model.parameters(z)
        some = x[:: max(1, len(x) // 500)]
        share = self.represented(kernel, parameters, some)
        if share >= ENOUGH:
            return {"represented": share}, []
        nodes = self.enough_nodes(kernel, parameters, some)
        remedy = f"Knots(nodes={nodes}) would do" if nodes else "use interpolation='cubic' with many nodes, or Dense()"
        return {"represented": share}, [
            f"too few knots: they represent only {share:.4f} of the prior variance at the data; {remedy}"
        ]


def chebyshev_nodes(low: float, high: float, n: int) -> Float[np.ndarray, " n"]:
    """The zeros of a Chebyshev polynomial on the interval, in increasing order."""
    unit = np.sin(np.pi * (2 * np.arange(n) - (n - 1)) / (2 * n))
    return 0.5 * (low + high) + 0.5 * (high - low) * unit


def interpolation_matrix(
    lines: Sequence[Float[np.ndarray, " m"]], x: Float[np.ndarray, "N D"], interpolation: str
) -> Float[np.ndarray, "N M"]:
    """``W(x)``: from values on the product grid to values at ``x``; every row sums to one."""
    along = _barycentric if interpolation == "chebyshev" else _local_cubic
    factors = [along(line, x[:, d]) for d, line in enumerate(lines)]
    return functools.reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(x), -1), factors)


def _barycentric(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    n = len(nodes)
    weights = (-1.0) ** np.arange(n) * np.sin(np.pi * (2 * np.arange(n) + 1) / (2 * n))
    difference = x[:, None] - nodes[None, :]
    exact = difference == 0
    terms = weights / np.where(exact, 1.0, difference)
    matrix = terms / terms.sum(axis=1, keepdims=True)
    hit = exact.any(axis=1)
    matrix[hit] = exact[hit]
    return matrix


def _local_cubic(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Lagrange interpolation from the four nearest nodes of a regular line (the outermost four at its ends)."""
    step = nodes[1] - nodes[0]
    first = np.clip(np.floor((x - nodes[0]) / step).astype(int) - 1, 0, len(nodes) - 4)
    s = (x - nodes[first]) / step
    cubic = np.stack(
        [
            -(s - 1) * (s - 2) * (s - 3) / 6,
            s * (s - 2) * (s - 3) / 2,
            -s * (s - 1) * (s - 3) / 2,
            s * (s - 1) * (s - 2) / 6,
        ],
        axis=1,
    )
    matrix = np.zeros((len(x), len(nodes)))
    np.put_along_axis(matrix, first[:, None] + np.arange(4), cubic, axis=1)
    return matrix


def _box_with_margin(x: np.ndarray) -> tuple[tuple[float, float], ...]:
    low, high = x.min(axis=0), x.max(axis=0)
    width = np.where(high > low, high - low, np.maximum(np.abs(low), 1.0))
    return tuple((float(a - MARGIN * w), float(b + MARGIN * w)) for a, b, w in zip(low, high, width))
