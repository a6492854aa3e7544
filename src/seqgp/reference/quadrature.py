"""The posterior of up to three parameters by quadrature: Gaussian data, the latent integrated out.

The rectangle rule on a grid, which for a smooth density that decays in all directions converges faster than any power
of the spacing. The grid's axes are those of the curvature at the mode; it grows until nothing is left at its edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import ModelError, SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.mcmc.gaussian import log_normal_density
from seqgp.model import Model
from seqgp.reference.marginal import Stack, exact_moments, log_marginal, observed_distances, require_gaussian, stack
from seqgp.reference.mode import mode_and_root
from seqgp.samplers.full.stacked import check_snapshots

REACH = 6.0  # where the grid starts with its edges, in standard deviations at the mode
EDGE = 1e-6  # how much of the mass may lie at each edge
ROUNDS = 12
NODES = 500_000
BATCH = 256  # nodes at a time


class Quadrature(NamedTuple):
    """The posterior of ``z`` as weighted nodes."""

    names: tuple[str, ...]
    z: Float[np.ndarray, "nodes d"]
    weights: Float[np.ndarray, " nodes"]  # sum to one
    log_evidence: float  # log p(y)

    @property
    def mean(self) -> Float[np.ndarray, " d"]:
        """The posterior mean of ``z``."""
        return self.weights @ self.z

    @property
    def covariance(self) -> Float[np.ndarray, "d d"]:
        """The posterior covariance of ``z``."""
        centred = self.z - self.mean
        return (self.weights[:, None] * centred).T @ centred

    @property
    def sd(self) -> Float[np.ndarray, " d"]:
        """The posterior standard deviations of ``z``."""
        return np.sqrt(np.diag(self.covariance))

    def expect(self, function: Callable[[Any], object]) -> np.ndarray:
        """The posterior expectation of a function of one ``z``; the function must be JAX's."""
        return np.tensordot(self.weights, _for_each(function)(self.z), axes=1)


def quadrature(model: Model, snapshots: Sequence[Snapshot] | Snapshot, spacing: float = 0.7) -> Quadrature:
    """The exact posterior of the parameters of a model with one to three of them.

    Args:
        model: a Gaussian likelihood, and up to three inferred parameters.
        snapshots: the data, in the order of time.
        spacing: of the grid, in standard deviations at the mode; halve it to see that nothing changes.
    """
    require_gaussian(model, "quadrature")
    if not 1 <= len(model.names) <= 3:
        raise ModelError(
            f"quadrature takes models with one to three inferred parameters, this one has {len(model.names)}; give "
            "numbers in place of priors, or use seqgp.reference.CollapsedSampler"
        )
    density = _log_posterior(model, stack(model, check_snapshots(model, snapshots)))
    mean, covariance = model.prior_of_z()
    sd = np.sqrt(np.diag(covariance))
    corners = itertools.product((-1, 0, 1), repeat=len(mean))
    centre, root = mode_and_root(density, (mean + sd * np.array(corner) for corner in corners), sd)
    low, high = np.full(len(centre), -REACH), np.full(len(centre), REACH)
    densities = _for_each(density)
    for _ in range(ROUNDS):
        axes = [np.arange(np.floor(a / spacing), np.ceil(b / spacing) + 1) * spacing for a, b in zip(low, high)]
        if np.prod([len(axis) for axis in axes]) > NODES:
            break
        found, edges = _evaluate(densities, model.names, centre, root, axes)
        if edges.max() < EDGE:
            return found
        low, high = np.where(edges[0] < EDGE, low, 1.5 * low), np.where(edges[1] < EDGE, high, 1.5 * high)
    raise SamplerError(
        f"quadrature: the posterior is too wide for a grid of {NODES} nodes at a spacing of {spacing}; raise spacing, "
        "or use seqgp.reference.CollapsedSampler"
    )


def quadrature_moments(
    model: Model, snapshots: Sequence[Snapshot], found: Quadrature
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean and standard deviation of ``f`` at all data, over the posterior of the parameters."""
    data = stack(model, snapshots)
    heavy = found.weights > 1e-12 * found.weights.max()
    kept = found._replace(z=found.z[heavy], weights=found.weights[heavy] / found.weights[heavy].sum())

    def two(z):
        moments = exact_moments(model, data, model.parameters(z))
        return jnp.stack([moments.mean, jnp.diagonal(moments.covariance) + moments.mean**2])

    mean, square = kept.expect(two)
    return mean, np.sqrt(square - mean**2)


def _log_posterior(model: Model, data: Stack):
    """``log p(y | z) + log N(z)``, with all constants."""
    mean, covariance = model.prior_of_z()
    root = np.linalg.cholesky(covariance)
    between = observed_distances(model, data)
    constant = 0.5 * len(mean) * np.log(2 * np.pi)

    def density(z):
        prior = log_normal_density(z, jnp.asarray(mean), jnp.asarray(root)) - constant
        return log_marginal(model, data, between, model.parameters(z)) + prior

    return density


def _for_each(function: Callable[[Any], object]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of one ``z`` for the rows of many, compiled once: the last batch is filled up to the same size."""
    run = jax.jit(jax.vmap(function))

    def values(z):
        size = min(BATCH, len(z))
        full = np.pad(z, [(0, -len(z) % size), (0, 0)], mode="edge")
        return np.concatenate([run(batch) for batch in np.split(full, len(full) // size)])[: len(z)]

    return values


def _evaluate(densities, names, centre, root, axes: list[np.ndarray]) -> tuple[Quadrature, np.ndarray]:
    """The weighted nodes of a grid, and the mass at its lower and upper edges."""
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    z = centre + grid @ root.T
    heights = densities(z)
    heights = np.where(np.isnan(heights), -np.inf, heights)
    top = heights.max()
    mass = np.exp(heights - top)
    cell = np.prod([axis[1] - axis[0] for axis in axes]) * np.prod(np.diag(root))
    weights = mass / mass.sum()
    edges = np.array([[weights[grid[:, i] == axis[end]].sum() for i, axis in enumerate(axes)] for end in (0, -1)])
    return Quadrature(tuple(names), z, weights, float(top + np.log(mass.sum() * cell))), edges
