"""From model, representation, carry and data to the one target that the updates see."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.mcmc.gaussian import condition
from seqgp.mcmc.target import Target
from seqgp.models.likelihoods import Gaussian
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.sequential.carry import Carried
from seqgp.sequential.observed import Observed


class Problem(NamedTuple):
    """A step as arrays: everything that changes from step to step, and nothing that is compiled in."""

    carried: Carried
    times: Float[Array, "B"]
    x: Float[Array, "B S D"]
    mask: Bool[Array, "B S"]
    observed: tuple[Observed, ...]  # one per present block
    representation: Any


class Assembly(NamedTuple):
    """What of a step's target is the same for all draws: computed once, before the chains start."""

    model: Model
    carry: Any
    problem: Problem
    geometry: Any
    blocks: tuple[Any, Any, Any]

    @property
    def present(self) -> int:
        """The number of blocks of sites that are seen by data of this step."""
        return len(self.problem.observed)


def assemble(model: Model, carry: Any, problem: Problem) -> Assembly:
    """Distances and conditional moments of ``z``, once per step."""
    layout = model.layout()
    mean, covariance = jnp.asarray(problem.carried.mean), jnp.asarray(problem.carried.covariance)

    def block(index: np.ndarray):
        return condition(mean, covariance, index) if len(index) else None

    blocks = (
        block(layout.kernel),
        block(layout.mean),
        block(layout.likelihood),
    )
    geometry = problem.representation.geometry(
        model.kernel, problem.times, problem.x, problem.mask, len(problem.observed)
    )
    return Assembly(model, carry, problem, geometry, blocks)


def target_of(assembly: Assembly, window: Float[Array, "tau S"]) -> Target:
    """The target of one draw, whose window is given."""
    model, carry, problem = assembly.model, assembly.carry, assembly.problem
    shared, latent = problem.carried.shared, problem.representation
    present, sites = assembly.present, problem.x.shape[1]
    kernel, level, likelihood = assembly.blocks

    def conditional(z):
        prior = latent.conditional(model.kernel, assembly.geometry, model.parameters(z), model.jitter)
        return carry.given(shared, prior, z)

    def mean_level(z):
        return model.parameters(z)["mean"]

    def log_precision(z):
        if isinstance(model.likelihood, Gaussian):
            return -2.0 * jnp.log(model.parameters(z)["noise"])
        return jnp.zeros(())

    def seen(values) -> Array:
        """The sites that have data, one row a snapshot."""
        return values[-present * sites :].reshape(present, sites, *values.shape[1:])

    def log_likelihood(values, z) -> Array:
        parameters = model.parameters(z)
        pairs = zip(problem.observed, seen(values))
        return functools.reduce(jnp.add, [one.log_likelihood(model.likelihood, s, parameters) for one, s in pairs])

    def on_span(middle, columns, z):
        parameters = model.parameters(z)
        rows = zip(problem.observed, seen(middle), seen(columns))
        spans = [one.on_span(model.likelihood, m, c, parameters) for one, m, c in rows]

        def on_plane(u, v):
            terms = [span(u, v) for span in spans]
            return lambda c, s: functools.reduce(jnp.add, [term(c, s) for term in terms])

        return on_plane

    return Target(
        mean=jnp.asarray(problem.carried.mean),
        covariance=jnp.asarray(problem.carried.covariance),
        kernel=kernel,
        level=level,
        likelihood=likelihood,
        conditional=conditional,
        offset=lambda conditional, z, mean: carry.offset(shared, window, conditional, z, mean),
        root=lambda conditional: carry.root(shared, conditional),
        mean_level=mean_level,
        log_likelihood=log_likelihood,
        on_span=on_span,
        log_precision=log_precision,
        size=carry.size(window.shape[0], sites) + (present - 1) * sites,
    )
