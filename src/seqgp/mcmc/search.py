"""The point where a quadratic approximation is found: damped Fisher scoring of the latent at fixed parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array
from seqgp.mcmc.fisher import log_precision, quadratic_of
from seqgp.mcmc.informed import quadratic_at
from seqgp.mcmc.problem import StepTarget
from seqgp.mcmc.target import place_at
from seqgp.mcmc.tilted import tilt
from seqgp.mcmc.updates import QuadraticApproximation, SearchResult

MAX_ITERATIONS = 40
MAX_HALVINGS = 12
MIN_GAIN = 1e-3  # gain in log density below which the search ends: the approximation need not be sharper


def approximation_at(target: StepTarget, sites: Float[Array, " n"], z: Float[Array, " d"]) -> QuadraticApproximation:
    """The approximation at a point, with how it follows the likelihood's parameters."""
    model, problem = target.model, target.problem
    blocks = target.present_blocks(sites)
    factor, slope = quadratic_of(model.likelihood, problem.observed, blocks, model.parameters(z))
    growth = jnp.zeros_like(z)
    index = model.layout().likelihood
    if len(index) and not model.likelihood.quadratic:  # which the target follows by itself
        try:
            growth = jax.grad(lambda z: log_precision(model.likelihood, problem.observed, blocks, model.parameters(z)))(
                z
            )
        except NotImplementedError:
            growth = jnp.zeros_like(z)
        keep = jnp.zeros_like(z).at[index].set(1.0)
        growth = jnp.where(jnp.isfinite(growth), growth * keep, 0.0)
    return QuadraticApproximation(factor, slope, z, growth)


def search(target: StepTarget, z: Float[Array, " d"], nu: Float[Array, " n"]) -> SearchResult:
    """Maximise ``log_likelihood + log N(nu)`` from ``nu`` at fixed ``z``: damped Newton steps of the approximation."""
    place = place_at(target, z)
    root = target.root(place.conditional)

    def density(nu):
        value = target.log_likelihood(place.offset + root.apply(nu), z) - 0.5 * jnp.dot(nu, nu)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def damped_newton(state):
        nu, value, iteration, _ = state
        approximation = approximation_at(target, place.offset + root.apply(nu), z)
        aim = tilt(place, root, quadratic_at(target, z, approximation)).centre()

        def halve(inner):
            step, _, count = inner
            return 0.5 * step, density(nu + 0.5 * step * (aim - nu)), count + 1

        def worse(inner):
            return ~(inner[1] > value) & (inner[2] < MAX_HALVINGS)

        step, reached, _ = jax.lax.while_loop(worse, halve, (jnp.ones(()), density(aim), jnp.zeros((), int)))
        better = reached > value
        gain = jnp.where(better, reached - value, 0.0)
        return jnp.where(better, nu + step * (aim - nu), nu), jnp.maximum(reached, value), iteration + 1, gain

    def unfinished(state):
        _, _, iteration, gain = state
        return (gain > MIN_GAIN) & (iteration < MAX_ITERATIONS)

    first = (nu, density(nu), jnp.zeros((), int), jnp.asarray(jnp.inf))
    nu, value, iterations, gain = jax.lax.while_loop(unfinished, damped_newton, first)
    sites = place.offset + root.apply(nu)
    return SearchResult(
        nu=nu,
        sites=sites,
        approximation=approximation_at(target, sites, z),
        log_density=value,
        iterations=iterations,
        converged=jnp.isfinite(value) & (gain <= 1.0) & jnp.isfinite(sites).all(),
    )
