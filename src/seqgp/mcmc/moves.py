"""The two moves of every sweep, in any chart: the latent at fixed parameters, and parameters at fixed coordinates.

A chart gives coordinates ``c`` of the latent at one ``z``: ``nu = centre + linear(c)``. The target in ``(z, c)`` is
``N(z) · N(c; 0, I) · exp(log_likelihood + log_weight)``, where the weight corrects for what the chart assumes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from seqgp.latents.operators import Events
from seqgp.mcmc.elliptical import Evaluation, SliceInfo, elliptical_slice
from seqgp.mcmc.gaussian import Block
from seqgp.mcmc.target import Position, Target, position_at


class Vectors(NamedTuple):
    """A centred point in coordinates, as ``nu``, and at the sites."""

    coordinates: Float[Array, "n"]
    nu: Float[Array, "n"]
    sites: Float[Array, "n"]


def move_latent(key: Key[Array, ""], target: Target, position: Position) -> tuple[Position, SliceInfo]:
    """Update 1 of the paper: the latent at fixed parameters, on an ellipse in the coordinates of the chart."""
    key_ellipse, key_slice = jax.random.split(key)
    chart, z = position.chart, position.z
    root = target.root(chart.place.conditional)
    centre = chart.centre()
    middle = chart.place.offset + root.apply(centre)

    # The map from coordinates to sites is affine, so the image of an ellipse is the ellipse of the images, and a
    # proposal is a point (cos, sin) of the plane: vectors are formed for the accepted one alone.
    drawn = jax.random.normal(key_ellipse, position.nu.shape, position.nu.dtype)
    drawn_nu = chart.centred_nu(drawn)
    here = Vectors(chart.coordinates(position.nu), position.nu - centre, position.sites - middle)
    there = Vectors(drawn, drawn_nu, root.apply(drawn_nu))
    log_likelihood_at = target.on_ellipse(middle, here.sites, there.sites, z)

    def vectors(point) -> Vectors:
        return jax.tree.map(lambda u, v: point[0] * u + point[1] * v, here, there)

    def evaluate(point) -> Evaluation:
        coordinates, nu, _ = vectors(point)
        log_likelihood = log_likelihood_at(*point)
        weight = chart.log_weight(centre + nu, coordinates)
        return Evaluation(log_likelihood + weight, log_likelihood, Events.none())

    zero, one = jnp.zeros((), drawn.dtype), jnp.ones((), drawn.dtype)
    weight = chart.log_weight(position.nu, here.coordinates)
    start = Evaluation(position.log_likelihood + weight, position.log_likelihood, Events.none())
    point, kept, info = elliptical_slice(key_slice, (one, zero), (zero, one), start, evaluate)
    _, nu, sites = vectors(point)
    return Position(z, centre + nu, middle + sites, chart, kept.kept), info


def move_parameters(
    key: Key[Array, ""],
    target: Target,
    position: Position,
    block: Block,
    chart_at: Callable[[Float[Array, "d"]], Any],
    log_factor: Callable[[Position], Float[Array, ""]] | None = None,
) -> tuple[Position, SliceInfo]:
    """Updates 2 and 3 of the paper: a block of ``z`` at fixed coordinates of the latent, which follows.

    Args:
        key: a random key.
        target: the posterior.
        position: where the chain is, in the chart that ``chart_at`` gives at its ``z``.
        block: the entries of ``z`` to move, with the Gaussian that their ellipse is drawn from.
        chart_at: the chart at another ``z``.
        log_factor: a further factor of the target (auxiliary variables; the correction of an ellipse that is not
            drawn from the prior).
    """
    key_ellipse, key_slice = jax.random.split(key)
    coordinates = position.chart.coordinates(position.nu)
    centre = block.mean(position.z)
    drawn = block.root @ jax.random.normal(key_ellipse, centre.shape, centre.dtype)

    def weigh(candidate: Position) -> Float[Array, ""]:
        weight = candidate.log_likelihood + candidate.chart.log_weight(candidate.nu, coordinates)
        return weight if log_factor is None else weight + log_factor(candidate)

    def evaluate(centred) -> Evaluation:
        z = block.insert(position.z, centre + centred)
        chart = chart_at(z)
        candidate = position_at(target, z, chart.centre() + chart.centred_nu(coordinates), chart)
        return Evaluation(weigh(candidate), candidate, chart.events)

    start = Evaluation(weigh(position), position, jax.tree.map(jnp.zeros_like, position.chart.events))
    current = position.z[block.index] - centre
    _, kept, info = elliptical_slice(key_slice, current, drawn, start, evaluate)
    return kept.kept, info
