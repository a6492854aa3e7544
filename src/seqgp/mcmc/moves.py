"""The two moves of every sweep, in any chart, and how a sweep is made of them.

The latent moves at fixed parameters, and parameters at fixed coordinates of the latent.

A chart gives coordinates ``c`` of the latent at one ``z``: ``nu = centre + linear(c)``. The target in ``(z, c)`` is
``N(z) · N(c; 0, I) · exp(log_likelihood + log_weight)``, where the weight corrects for what the chart assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from seqgp.fields.operators import Events
from seqgp.mcmc.elliptical import Evaluation, SliceInfo, elliptical_slice, random_numbers
from seqgp.mcmc.gaussian import Block
from seqgp.mcmc.target import Chart, Position, Target, position_at

SweepInfo = dict[str, SliceInfo]
Move = Callable[[Key[Array, ""], Position, int], tuple[Position, SliceInfo]]  # repeated that often


class Vectors(NamedTuple):
    """Centred points, one in each column: in coordinates, as ``nu``, and at the sites."""

    coordinates: Float[Array, "n k"]
    nu: Float[Array, "n k"]
    sites: Float[Array, "n k"]


def move_latent(key: Key[Array, ""], target: Target, position: Position, times: int = 1) -> tuple[Position, SliceInfo]:
    """Update 1 of the paper: the latent at fixed parameters, on ``times`` ellipses in the coordinates of the chart.

    The map from coordinates to sites is affine, so the image of an ellipse is the ellipse of the images. All ellipses
    are drawn at once: whatever the slices do, the chain stays in the span of where it was and what was drawn, and a
    slice works on a plane of that span. Points are formed for the last one alone.
    """
    chart, z = position.chart, position.z
    root = target.root(chart.place.conditional)
    centre = chart.centre()
    middle = chart.place.offset + root.apply(centre)
    white, uniform = random_numbers(key, position.nu.shape[0] * times, times)
    drawn = white.reshape(-1, times)
    drawn_nu = chart.centred_nu(drawn)
    here = Vectors(chart.coordinates(position.nu), position.nu - centre, position.sites - middle)
    span = jax.tree.map(
        lambda one, others: jnp.concatenate([one[:, None], others], axis=1),
        here,
        Vectors(drawn, drawn_nu, root.apply(drawn_nu)),
    )
    on_plane = target.log_likelihood_on_planes(middle, span.sites, z)
    zero, one = jnp.zeros((), drawn.dtype), jnp.ones((), drawn.dtype)

    def update(carry, inputs):
        weights, evaluation = carry
        numbers, ellipse = inputs
        log_likelihood_at = on_plane(weights, ellipse)
        u, v = (jax.tree.map(lambda columns: columns @ w, span) for w in (weights, ellipse))  # noqa: B023

        def evaluate(point) -> Evaluation:
            nu, coordinates = (point[0] * a + point[1] * b for a, b in ((u.nu, v.nu), (u.coordinates, v.coordinates)))
            log_likelihood = log_likelihood_at(*point)
            return Evaluation(
                log_likelihood + chart.log_weight(centre + nu, coordinates), log_likelihood, Events.none()
            )

        point, evaluation, info = elliptical_slice(numbers, (one, zero), (zero, one), evaluation, evaluate)
        return (point[0] * weights + point[1] * ellipse, evaluation), info

    log_weight = chart.log_weight(position.nu, here.coordinates)
    start = Evaluation(position.log_likelihood + log_weight, position.log_likelihood, Events.none())
    basis = jnp.eye(times + 1, dtype=drawn.dtype)
    (weights, evaluation), infos = jax.lax.scan(update, (basis[0], start), (uniform, basis[1:]))
    moved = Position(z, centre + span.nu @ weights, middle + span.sites @ weights, chart, evaluation.kept)
    return moved, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), infos)


def move_parameters(
    key: Key[Array, ""],
    target: Target,
    position: Position,
    block: Block,
    chart_at: Callable[[Float[Array, " d"]], Chart],
    log_factor: Callable[[Position], Float[Array, ""]] | None = None,
    keep: Callable[[Position], object] = lambda position: position,
) -> tuple[PyTree, SliceInfo]:
    """Updates 2 and 3 of the paper: a block of ``z`` at fixed coordinates of the latent, which follows.

    Args:
        key: a random key.
        target: the posterior.
        position: where the chain is, in the chart that ``chart_at`` gives at its ``z``.
        block: the entries of ``z`` to move, with the Gaussian that their ellipse is drawn from.
        chart_at: the chart at another ``z``.
        log_factor: a further factor of the target (auxiliary variables; the correction of an ellipse that is not
            drawn from the prior).
        keep: what of a position passes through the slice, and is returned: each of its arrays is copied at every
            proposal.
    """
    coordinates = position.chart.coordinates(position.nu)
    centre = block.mean(position.z)
    white, uniform = random_numbers(key, centre.shape[0])
    drawn = block.root @ white

    def weigh(candidate: Position) -> Float[Array, ""]:
        weight = candidate.log_likelihood + candidate.chart.log_weight(candidate.nu, coordinates)
        return weight if log_factor is None else weight + log_factor(candidate)

    def evaluate(centred) -> Evaluation:
        z = block.insert(position.z, centre + centred)
        chart = chart_at(z)
        candidate = position_at(target, z, chart.centre() + chart.centred_nu(coordinates), chart)
        return Evaluation(weigh(candidate), keep(candidate), chart.events)

    start = Evaluation(weigh(position), keep(position), jax.tree.map(jnp.zeros_like, position.chart.events))
    current = position.z[block.index] - centre
    _, kept, info = elliptical_slice(uniform[0], current, drawn, start, evaluate)
    return kept.kept, info


def in_turn(
    key: Key[Array, ""], position: Position, moves: dict[str, Move], order: Sequence[tuple[str, int]]
) -> tuple[Position, SweepInfo]:
    """Moves in a given order, each repeated: the position, and what each kind of move cost."""
    info: SweepInfo = {}
    for stage, (name, times) in zip(jax.random.split(key, len(order)), order):
        if times:
            position, spent = moves[name](stage, position, times)
            info[name] = info[name] + spent if name in info else spent
    return position, info


def repeated(move: Callable[[Key[Array, ""], Position], tuple[Position, PyTree]]) -> Callable:
    """One move after the other: where the last one ended, and what all of them cost."""

    def moves(key, position, times):
        if times == 1:
            return move(key, position)

        def body(position, key):
            return move(key, position)

        position, infos = jax.lax.scan(body, position, jax.random.split(key, times))
        return position, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), infos)

    return moves
