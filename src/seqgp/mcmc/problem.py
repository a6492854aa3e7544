"""From model, representation, data and the draws before to the one target that the updates see."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from seqgp.base.snapshot import Snapshot
from seqgp.fields.protocol import Conditional, Latent, Root
from seqgp.fields.sites import Sites, StepSites
from seqgp.likelihoods.base import Plane
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.gaussian import Block, condition
from seqgp.mcmc.observed import Observed, observed_from
from seqgp.model import Model


class Problem(NamedTuple):
    """A step as arrays: everything that changes from step to step, and nothing that is compiled in."""

    mean: Float[ArrayLike, " d"]  # m_z
    covariance: Float[ArrayLike, "d d"]  # K_z
    times: Float[ArrayLike, " B"]
    x: Float[ArrayLike, "B S D"]
    mask: Bool[ArrayLike, "B S"]
    observed: tuple[Observed, ...]  # one per present block
    representation: Latent

    @property
    def sites(self) -> int:
        """The number of sites of a block."""
        return self.x.shape[1]

    @property
    def present(self) -> int:
        """The number of sites that the data of this step see: those of all present blocks."""
        return len(self.observed) * self.sites


class StepTarget(NamedTuple):
    """The target of a step: a :class:`seqgp.mcmc.target.Target`, made once; each draw then gives its window."""

    model: Model
    problem: Problem
    geometry: PyTree  # of the sites, as the representation made it
    kernel_block: Block | None
    mean_block: Block | None
    likelihood_block: Block | None
    window: Float[Array, "tau S"]

    def given_window(self, window: Float[Array, "tau S"]) -> StepTarget:
        """The target of a draw that conditions on this window."""
        return self._replace(window=window)

    @property
    def mean(self) -> Float[Array, " d"]:
        """``m_z``."""
        return jnp.asarray(self.problem.mean)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """``K_z``."""
        return jnp.asarray(self.problem.covariance)

    @property
    def size(self) -> int:
        """The number of sites that are sampled: those of the present."""
        return self.problem.present

    def conditional(self, z: Float[Array, " d"]) -> Conditional:
        """The prior of the present given the window, ``N(A f_w, L_t L_t')``, at the kernel's parameters."""
        model, representation = self.model, self.problem.representation
        return representation.conditional(model.kernel, self.geometry, model.parameters(z), model.jitter)

    def offset(self, conditional: Conditional) -> Float[Array, " n"]:
        """``A f_w``."""
        return conditional.mean(self.window)

    def root(self, conditional: Conditional) -> Root:
        """``L_t``."""
        return conditional.root

    def constant_mean(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """The mean, known or inferred."""
        return self.model.parameters(z)["mean"]

    def covariates(self) -> Float[Array, "n q"]:
        """The columns of the mean's covariates at the sites: zero where there are no data of this step."""
        names = list(self.model.mean_function.slots())[1:]
        blocks = [
            jnp.concatenate([one.columns_at_sites(name, self.problem.sites) for one in self.problem.observed])
            for name in names
        ]
        return jnp.concatenate(blocks, axis=1) if blocks else jnp.zeros((self.problem.present, 0))

    def covariate_weights(self, z: Float[Array, " d"]) -> Float[Array, " q"]:
        """The weights of the covariates, in natural units."""
        return self.model.mean_function.coefficients(self.model.parameters(z))[1:]

    def log_precision(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """Of the data's noise, where the likelihood knows it; zero otherwise."""
        return self.model.likelihood.log_precision(self.model.parameters(z))

    def log_likelihood(self, sites: Float[Array, " n"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Of all data of the step, given the zero-mean latent at the sites."""
        parameters = self.model.parameters(z)
        pairs = zip(self.problem.observed, self.present_blocks(sites))
        terms = [one.log_likelihood(self.model.likelihood, block, parameters) for one, block in pairs]
        return functools.reduce(jnp.add, terms)

    def log_likelihood_on_planes(
        self, middle: Float[Array, " n"], columns: Float[Array, "n k"], z: Float[Array, " d"]
    ) -> Plane:
        """The log likelihood on planes through ``middle`` within the span of ``columns``."""
        parameters = self.model.parameters(z)
        rows = zip(self.problem.observed, self.present_blocks(middle), self.present_blocks(columns))
        planes = [one.on_planes(self.model.likelihood, m, c, parameters) for one, m, c in rows]

        def on_plane(u, v):
            terms = [plane(u, v) for plane in planes]
            return lambda c, s: functools.reduce(jnp.add, [term(c, s) for term in terms])

        return on_plane

    def present_blocks(self, sites: Float[Array, " n *k"]) -> Float[Array, " P S *k"]:
        """The sites that have data, one row a snapshot."""
        return sites.reshape(-1, self.problem.sites, *sites.shape[1:])


def target_of(model: Model, problem: Problem) -> StepTarget:
    """Distances and conditional moments of ``z``, once per step; the window is zero until it is given."""
    layout = model.layout()
    mean, covariance = jnp.asarray(problem.mean), jnp.asarray(problem.covariance)

    def block(index: np.ndarray) -> Block | None:
        return condition(mean, covariance, index) if len(index) else None

    return StepTarget(
        model=model,
        problem=problem,
        geometry=problem.representation.geometry(
            model.kernel, problem.times, problem.x, problem.mask, len(problem.observed)
        ),
        kernel_block=block(layout.kernel),
        mean_block=block(layout.mean),
        likelihood_block=block(layout.likelihood),
        window=jnp.zeros((len(problem.times) - len(problem.observed), problem.sites)),
    )


def initial_problem(model: Model, representation: Latent, snapshot: Snapshot) -> tuple[Problem, Sites]:
    """The exact problem of the first snapshot: no window, the prior of ``z``."""
    size = len(snapshot.x)
    sites = representation.sites(snapshot.x, size)
    mean, covariance = model.prior_of_z()
    problem = Problem(
        mean=mean,
        covariance=covariance,
        times=np.array([snapshot.t]),
        x=sites.x[None],
        mask=sites.mask[None],
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
    )
    return problem, sites


def step_problem(
    model: Model,
    representation: Latent,
    moments: tuple[np.ndarray, np.ndarray],
    step_sites: StepSites,
    snapshot: Snapshot,
) -> Problem:
    """The problem of a step with the moments of ``z`` before it: the window's blocks before the present's."""
    sites, window, size = step_sites
    return Problem(
        mean=moments[0],
        covariance=moments[1],
        times=np.append(window.times, snapshot.t),
        x=np.concatenate([window.x, sites.x[None]]),
        mask=np.concatenate([window.mask, sites.mask[None]]),
        observed=(observed_from(model, snapshot, sites.observe, size),),
        representation=representation,
    )
