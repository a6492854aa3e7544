"""Points that fill a distribution evenly: scrambled Sobol points through its quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, gammaln, logsumexp, ndtri

from seqgp.statespace.shared_lengthscales import (
    LengthscaleGrid,
    nested_grid,
    on_grid,
    snap,
    snapped_log_density,
    spacing,
)

DEGREES_OF_FREEDOM = 7.0  # degrees of freedom of a proposal
COVARIANCE_INFLATION = 1.3  # its covariance over that of the particles


def normal_points(rng: np.random.Generator, mean: np.ndarray, sd: np.ndarray, count: int) -> Float[np.ndarray, "n d"]:
    """Points of independent normals."""
    return mean + sd * ndtri(_uniform(rng, len(mean), count))


def log_normal(z: Float[np.ndarray, "n d"], mean: np.ndarray, sd: np.ndarray) -> Float[np.ndarray, " n"]:
    """The log density of independent normals."""
    return (-0.5 * ((z - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum(axis=1)


class StudentProposal(NamedTuple):
    """A multivariate Student's t distribution."""

    mean: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "d d"]

    @classmethod
    def fitted(
        cls, z: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], floor: np.ndarray
    ) -> StudentProposal:
        """To weighted particles, widened; ``floor`` are variances below which no direction falls."""
        mean = weights @ z
        centred = z - mean
        covariance = COVARIANCE_INFLATION * (centred * weights[:, None]).T @ centred + np.diag(floor)
        return cls(mean, np.linalg.cholesky(covariance))

    def points(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n d"]:
        """Points that fill the distribution: quantiles of normals, and of the gamma that scales them."""
        d = len(self.mean)
        uniform = _uniform(rng, d + 1, count)
        scale = gammaincinv(DEGREES_OF_FREEDOM / 2, uniform[:, d]) * 2 / DEGREES_OF_FREEDOM
        return self.mean + ndtri(uniform[:, :d]) / np.sqrt(scale)[:, None] @ self.root.T

    def log_density(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The log density at each point."""
        d = len(self.mean)
        white = _solved(self.root, (z - self.mean).T)
        constant = (
            gammaln((DEGREES_OF_FREEDOM + d) / 2)
            - gammaln(DEGREES_OF_FREEDOM / 2)
            - 0.5 * d * np.log(DEGREES_OF_FREEDOM * np.pi)
        )
        constant -= np.log(np.diag(self.root)).sum()
        return constant - 0.5 * (DEGREES_OF_FREEDOM + d) * np.log1p((white**2).sum(axis=0) / DEGREES_OF_FREEDOM)


class Mixture(NamedTuple):
    """A mixture of Student's t distributions: the last ones that were fitted, which protects against a bad fit."""

    parts: tuple[StudentProposal, ...]
    shares: tuple[float, ...]

    def points(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n d"]:
        """A fixed number from each part."""
        counts = [int(share * count) for share in self.shares[:-1]]
        counts.append(count - sum(counts))
        return np.concatenate([part.points(rng, n) for part, n in zip(self.parts, counts) if n])

    def log_density(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The log density at each point."""
        terms = [part.log_density(z) + np.log(share) for part, share in zip(self.parts, self.shares)]
        return np.asarray(logsumexp(np.stack(terms), axis=0))


class Snapped(NamedTuple):
    """A proposal whose space lengthscales are moved to the centres of the cells of a grid."""

    proposal: Mixture
    grid: LengthscaleGrid

    def points(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n d"]:
        """Those of the proposal, moved."""
        return snap(self.proposal.points(rng, count), self.grid)

    def log_density(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """At points that have been moved: the mean over the cell that they stand for."""
        return snapped_log_density(self.proposal.log_density, z, self.grid)


def snapped(proposal: Mixture, entries: tuple[int, ...]) -> Mixture | Snapped:
    """A proposal whose chosen entries of ``z`` lie on a grid of half a standard deviation; as it is without any."""
    if not entries:
        return proposal
    fit = proposal.parts[0]
    return Snapped(proposal, nested_grid(fit.mean, fit.root @ fit.root.T, entries))


def variance_in_cells(z: Float[np.ndarray, "n d"], entries: tuple[int, ...], sd: np.ndarray) -> Float[np.ndarray, " d"]:
    """What entries on a grid lack of their variance: ``h² / 12`` for cells of width ``h``; zero for the others.

    Where all are in one cell, this is taken to be as wide as half of ``sd``.
    """
    found = np.zeros(z.shape[1])
    for i in entries:
        width = spacing(z[:, i])
        found[i] = (width if np.isfinite(width) else 0.5 * sd[i]) ** 2 / 12
    return found


def move_grid(fit: StudentProposal, z: Float[np.ndarray, "n d"], entries: tuple[int, ...]) -> LengthscaleGrid | None:
    """For random walks of points on a grid: as fine as theirs or finer, so that they lie on it; ``None`` elsewhere."""
    if not entries or not on_grid(z[:, list(entries)]):
        return None
    grid = nested_grid(fit.mean, fit.root @ fit.root.T, entries)
    finer = np.array([min(1.0, spacing(z[:, i]) / grid.steps[i, j]) for j, i in enumerate(entries)])
    return grid._replace(steps=grid.steps * finer[None, :])


def _solved(root: Float[np.ndarray, "d d"], columns: Float[np.ndarray, "d n"]) -> Float[np.ndarray, "d n"]:
    """``root⁻¹ columns`` by substitution: BLAS would wake all its threads for these few rows, which takes longer."""
    solved = np.empty_like(columns)
    for i, row in enumerate(root):
        solved[i] = (columns[i] - row[:i] @ solved[:i]) / row[i]
    return solved


def _uniform(rng: np.random.Generator, d: int, count: int) -> np.ndarray:
    from scipy.stats import qmc  # half a second to import: only where points are made

    # The first of a power of two: the same points, and no warning of SciPy's that other numbers balance less well.
    points = qmc.Sobol(d, scramble=True, rng=rng).random_base2((int(count) - 1).bit_length())[:count]
    return np.clip(points, 1e-12, 1 - 1e-12)
