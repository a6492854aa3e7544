"""The exact posterior after the last of many snapshots, for Gaussian data: what an online sampler should have found.

The latent is integrated out by :mod:`seqgp.reference.conditional`; the parameters are left, and importance sampling
does those: a mixture of Student's t distributions, refitted until most of its points count (Cappé et al. 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.model import Model
from seqgp.reference.conditional import AtParameters, conditional
from seqgp.reference.marginal import require_gaussian
from seqgp.reference.mode import mode_and_root
from seqgp.samplers.full.stacked import check_snapshots

DEGREES_OF_FREEDOM = 6.0  # of the proposals
MIXTURE_COMPONENTS = 3
MAX_REFITS = 20
FINAL_BATCHES = 4  # of the final points; each round of refitting has one
MODE_STARTS = 3  # of the search for it


class OnlinePosterior(NamedTuple):
    """The posterior of the parameters and of ``f`` at the last time, given all data."""

    names: tuple[str, ...]
    mean: Float[np.ndarray, " d"]  # of z
    sd: Float[np.ndarray, " d"]
    z: Float[np.ndarray, "points d"]
    weights: Float[np.ndarray, " points"]  # sum to one
    log_evidence: float
    log_evidence_se: float
    f_mean: Float[np.ndarray, " n"]  # at the last snapshot's inputs
    f_variance: Float[np.ndarray, " n"]
    ess: float  # the effective number of points
    path: str  # how the latent was integrated out


def online_posterior(
    model: Model, snapshots: Sequence[Snapshot], seed: int = 0, points: int = 4000, least: float = 0.5
) -> OnlinePosterior:
    """The exact posterior after the last snapshot.

    Args:
        model: a Gaussian likelihood with one noise level; any kernel.
        snapshots: the data, in the order of time; NaN where missing.
        seed: of the importance sampling.
        points: how many values of ``z`` the result is made of.
        least: the share of the points that must be effective.
    """
    require_gaussian(model, "online_posterior")
    snapshots = check_snapshots(model, snapshots)
    path = conditional(model, snapshots)
    mean, cov = model.prior_of_z()
    sd = np.sqrt(np.diag(cov))
    few = -(-points // FINAL_BATCHES)
    points = few * FINAL_BATCHES
    run = jax.jit(lambda z: jax.lax.map(path.given, z, batch_size=path.batch))

    def log_density(z: np.ndarray) -> tuple[np.ndarray, AtParameters]:
        pieces = [run(jnp.asarray(piece)) for piece in np.split(z, len(z) // few)]  # compiled for one size
        found = AtParameters(*(jnp.concatenate(parts) for parts in zip(*pieces)))
        height = np.asarray(found.log_likelihood) + norm.logpdf(z, mean, sd).sum(axis=1)
        return np.where(np.isnan(height), -np.inf, height), found

    rng = np.random.default_rng(seed)
    starts = [mean, *(mean + sd * rng.standard_normal((MODE_STARTS - 1, len(mean))))]
    proposal = _spread_out(rng, *mode_and_root(_log_posterior(path.given, mean, sd), starts, sd))
    z, log_weights = np.zeros((0, len(mean))), np.zeros(0)
    for _ in range(MAX_REFITS):
        z = proposal.points(rng, few)
        log_weights = log_density(z)[0] - proposal.log_density(z)
        enough = _ess(log_weights) > 1.1 * least * few
        proposal = proposal.refitted(z, np.exp(log_weights - logsumexp(log_weights)))
        if enough:
            z = proposal.points(rng, points)
            height, found = log_density(z)
            log_weights = height - proposal.log_density(z)
            if _ess(log_weights) > least * points:
                return _summary(model, path.name, z, log_weights, found)
    raise SamplerError(
        f"online_posterior: after {MAX_REFITS} rounds {_ess(log_weights):.0f} of {len(z)} points are effective; "
        "lower least, or use seqgp.reference.CollapsedSampler"
    )


def _log_posterior(given: Callable[..., AtParameters], mean: np.ndarray, sd: np.ndarray) -> Callable[..., Any]:
    """Up to a constant."""

    def log_density(z):
        return given(z).log_likelihood - 0.5 * jnp.sum(((z - jnp.asarray(mean)) / jnp.asarray(sd)) ** 2)

    return log_density


def _summary(model: Model, path: str, z: np.ndarray, log_weights: np.ndarray, found: AtParameters) -> OnlinePosterior:
    total = logsumexp(log_weights)
    weights, ess = np.exp(log_weights - total), _ess(log_weights)
    good = weights > 0
    mean, weight = weights @ z, weights[good]
    means, variances = np.asarray(found.mean)[good], np.asarray(found.variance)[good]
    f_mean = weight @ means
    return OnlinePosterior(
        names=tuple(model.names),
        mean=mean,
        sd=np.sqrt(weights @ (z - mean) ** 2),
        z=z,
        weights=weights,
        log_evidence=float(total - np.log(len(z))),
        log_evidence_se=float(np.sqrt((len(z) / ess - 1) / len(z))),
        f_mean=f_mean,
        f_variance=weight @ (variances + (means - f_mean) ** 2),
        ess=ess,
        path=path,
    )


def _ess(log_weights: np.ndarray) -> float:
    weights = np.exp(log_weights - np.max(log_weights))
    return float(weights.sum() ** 2 / (weights**2).sum())


class _Mixture(NamedTuple):
    """Student's t distributions with shares."""

    shares: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k d"]
    roots: Float[np.ndarray, "k d d"]

    def points(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count d"]:
        """Independent draws."""
        part = rng.choice(len(self.shares), size=count, p=self.shares)
        white = rng.standard_normal((count, self.means.shape[1]))
        scale = np.sqrt(rng.chisquare(DEGREES_OF_FREEDOM, count) / DEGREES_OF_FREEDOM)
        return self.means[part] + np.einsum("nij,nj->ni", self.roots[part], white) / scale[:, None]

    def squares(self, z: np.ndarray) -> Float[np.ndarray, "k count"]:
        """Squared distances from each centre, in its own units."""
        white = [solve_triangular(root, (z - mean).T, lower=True) for root, mean in zip(self.roots, self.means)]
        return np.array([(part**2).sum(axis=0) for part in white])

    def log_parts(self, z: np.ndarray) -> Float[np.ndarray, "k count"]:
        """Log share times density of each part."""
        d = self.means.shape[1]
        constant = (
            gammaln((DEGREES_OF_FREEDOM + d) / 2)
            - gammaln(DEGREES_OF_FREEDOM / 2)
            - 0.5 * d * np.log(DEGREES_OF_FREEDOM * np.pi)
        )
        volumes = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        heights = constant - 0.5 * (DEGREES_OF_FREEDOM + d) * np.log1p(self.squares(z) / DEGREES_OF_FREEDOM)
        return heights + (np.log(self.shares) - volumes)[:, None]

    def log_density(self, z: np.ndarray) -> Float[np.ndarray, " count"]:
        """Of the whole."""
        return np.asarray(logsumexp(self.log_parts(z), axis=0))

    def refitted(self, z: np.ndarray, weights: np.ndarray) -> _Mixture:
        """One step of the EM algorithm towards the weighted points."""
        d = self.means.shape[1]
        parts = self.log_parts(z)
        belongs = np.exp(parts - logsumexp(parts, axis=0)) * weights
        shares = np.maximum(belongs.sum(axis=1), 0.02)
        near = belongs * (DEGREES_OF_FREEDOM + d) / (DEGREES_OF_FREEDOM + self.squares(z))
        means, roots = [], []
        for k in range(len(shares)):
            mean = near[k] @ z / max(near[k].sum(), 1e-300)
            covariance = (near[k][:, None] * (z - mean)).T @ (z - mean) / max(belongs[k].sum(), 1e-300)
            few = 1 / np.sum((belongs[k] / max(belongs[k].sum(), 1e-300)) ** 2) < 5 * d
            means.append(self.means[k] if few else mean)
            roots.append(self.roots[k] if few else np.linalg.cholesky(covariance))
        return _Mixture(shares / shares.sum(), np.array(means), np.array(roots))


def _spread_out(rng: np.random.Generator, mode: np.ndarray, root: np.ndarray) -> _Mixture:
    """A mixture about the mode, wider than the curvature says, with centres apart."""
    means = mode + 0.5 * rng.standard_normal((MIXTURE_COMPONENTS, len(mode))) @ root.T
    return _Mixture(
        np.full(MIXTURE_COMPONENTS, 1 / MIXTURE_COMPONENTS),
        means,
        np.repeat(1.3 * root[None], MIXTURE_COMPONENTS, axis=0),
    )
