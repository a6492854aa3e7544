"""From model, representation, carry and data to the one target that the updates see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.mcmc.gaussian import condition
from seqgp.mcmc.target import Target
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.target.carry import Carried
from seqgp.target.observed import Observed


class Problem(NamedTuple):
    """A step as arrays: everything that changes from step to step, and nothing that is compiled in."""

    carried: Carried
    times: Float[Array, " B"]
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
    def sites(self) -> int:
        """The number of sites of a block."""
        return self.problem.x.shape[1]

    @property
    def present(self) -> int:
        """The number of blocks of sites that are seen by data of this step."""
        return len(self.problem.observed)

    @property
    def shared(self) -> Any:
        """What the carry says of all draws."""
        return self.problem.carried.shared

    def conditional(self, z) -> Any:
        """What the kernel's parameters decide of the latent's prior."""
        model, latent = self.model, self.problem.representation
        prior = latent.conditional(model.kernel, self.geometry, model.parameters(z), model.jitter)
        return self.carry.given(self.shared, prior, z)

    def root(self, conditional) -> Any:
        """The square root of the prior covariance of the sites."""
        return self.carry.root(self.shared, conditional)

    def mean_level(self, z) -> Array:
        """The mean, known or inferred."""
        return self.model.parameters(z)["mean"]

    def log_precision(self, z) -> Array:
        """Of the data's noise, where the likelihood knows it; zero otherwise."""
        return self.model.likelihood.log_precision(self.model.parameters(z))

    def log_likelihood(self, values, z) -> Array:
        """Of all data of the step, for the level at the sites."""
        parameters = self.model.parameters(z)
        pairs = zip(self.problem.observed, self._seen(values))
        terms = [one.log_likelihood(self.model.likelihood, level, parameters) for one, level in pairs]
        return functools.reduce(jnp.add, terms)

    def on_span(self, middle, columns, z) -> Callable:
        """The log likelihood on planes through ``middle`` within the span of ``columns``."""
        parameters = self.model.parameters(z)
        rows = zip(self.problem.observed, self._seen(middle), self._seen(columns))
        spans = [one.on_span(self.model.likelihood, m, c, parameters) for one, m, c in rows]

        def on_plane(u, v):
            terms = [span(u, v) for span in spans]
            return lambda c, s: functools.reduce(jnp.add, [term(c, s) for term in terms])

        return on_plane

    def _seen(self, values) -> Array:
        """The sites that have data, one row a snapshot."""
        return values[-self.present * self.sites :].reshape(self.present, self.sites, *values.shape[1:])


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
    carry, carried = assembly.carry, assembly.problem.carried
    kernel, level, likelihood = assembly.blocks
    return Target(
        mean=jnp.asarray(carried.mean),
        covariance=jnp.asarray(carried.covariance),
        kernel=kernel,
        level=level,
        likelihood=likelihood,
        conditional=assembly.conditional,
        offset=lambda conditional, z, mean: carry.offset(carried.shared, window, conditional, z, mean),
        root=assembly.root,
        mean_level=assembly.mean_level,
        log_likelihood=assembly.log_likelihood,
        on_span=assembly.on_span,
        log_precision=assembly.log_precision,
        size=carry.size(window.shape[0], assembly.sites) + (assembly.present - 1) * assembly.sites,
    )
