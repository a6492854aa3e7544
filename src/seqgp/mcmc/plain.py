"""The paper's set of updates: elliptical slices from the prior, and surrogate data slice sampling at the first time."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import SamplerError
from seqgp.fields.operators import Events
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.charts import Whitened, whitened_at
from seqgp.mcmc.elliptical import SliceInfo
from seqgp.mcmc.gaussian import Block
from seqgp.mcmc.interweaving import interweave_mean
from seqgp.mcmc.moves import Move, SweepInfo, in_turn, move_latent, move_parameters, repeated
from seqgp.mcmc.surrogate import move_kernel_with_surrogate
from seqgp.mcmc.target import Position, Target, position_at, with_window
from seqgp.mcmc.updates import Exploration, Schedule, Tuned, WarmUp


class Sweeps(NamedTuple):
    """Repetitions of each update in a sweep: the latent function before, between and after the parameters; the mean."""

    before: int = 5
    between: int = 5
    after: int = 1
    mean: int = 1


class PlainTuning(NamedTuple):
    """What is found once and then frozen: the precision ``1/S`` of the surrogate data at each site."""

    precision: Float[ArrayLike, " n"]


class Plain(eqx.Module):
    """Updates that need no derivative of the likelihood.

    Args:
        sweeps: repetitions of the updates in a step, ``(before, between, after)`` or ``Sweeps``.
        kernel: the update of the kernel's parameters in a step: at fixed ``nu`` (``"whitened"``, the paper's Algorithm
            2), or with surrogate data (``"surrogate"``, SDSS).
        start: where the latent function of a draw starts: at a fresh draw of its conditional prior (``"prior"``, the
            paper's), or at the whitened coordinates of the chain's last draw (``"warm"``).
        initial: repetitions for the initial sample, whose kernel update is always SDSS.
        surrogate: the standard deviation of the surrogate data; from the curvature of the likelihood by default.
    """

    sweeps: Sweeps = eqx.field(static=True)
    kernel: str = eqx.field(static=True)
    start: str = eqx.field(static=True)
    initial: Sweeps = eqx.field(static=True)
    surrogate: float | None = eqx.field(static=True)

    def __init__(
        self,
        sweeps: Sweeps | tuple[int, ...] = (5, 5, 1),
        kernel: Literal["whitened", "surrogate"] = "whitened",
        start: Literal["prior", "warm"] = "warm",
        initial: Sweeps | tuple[int, ...] = (3, 0, 1),
        surrogate: float | None = None,
    ):
        self.sweeps, self.initial = _as_sweeps(sweeps, "sweeps"), _as_sweeps(initial, "initial")
        self.kernel = _one_of(kernel, ("whitened", "surrogate"), "Plain: kernel")
        self.start = _one_of(start, ("prior", "warm"), "Plain: start")
        if surrogate is not None and not surrogate > 0:
            raise SamplerError(f"Plain: surrogate = {surrogate} is not a positive standard deviation")
        self.surrogate = surrogate

    @property
    def name(self) -> str:
        """``"plain"``."""
        return "plain"

    @property
    def needs_gradient(self) -> bool:
        """Any likelihood will do."""
        return False

    def schedule(self, first: bool) -> Schedule:
        """A long warm-up before the initial sample, at whose end the precision of surrogate data is found anew."""
        remedy = "thin, warmup or draws" if first else "draws, or Plain(sweeps=…)"
        return Schedule(warmup=500, thin=5, least=0, stages=(1.0,) if first else (), remedy=remedy)

    def tune(self, target: Exploration) -> Tuned:
        """The precision of surrogate data at the prior mean."""
        return Tuned(self, self._precision(target, np.zeros(target.present), target.mean))

    def retune(self, target: Exploration, tuning: PlainTuning, warm: WarmUp) -> PlainTuning:
        """The precision of surrogate data at the mean of the second half of the warm-up."""
        half = warm.z.shape[1] // 2
        sites = warm.sites[:, half:].mean((0, 1))
        return self._precision(target, sites, warm.z[:, half:].mean((0, 1)))

    def _precision(self, target: Exploration, sites: np.ndarray, z: np.ndarray) -> PlainTuning:
        """``1/S`` at each site of the present: a user's own ``S``, else the curvature of the log likelihood there.

        Where that cannot be differentiated, ``S`` is half the prior's standard deviation, squared.
        """
        if self.surrogate is not None:
            return PlainTuning(np.full(target.present, self.surrogate**-2.0))
        if not target.differentiable():
            return PlainTuning(np.full(target.present, 4.0 / target.prior_variance(z)))
        return PlainTuning(target.curvature(sites, z))

    def chart_at(self, target: Target, z: Float[Array, " d"], tuning: PlainTuning) -> Whitened:
        """The coordinates that a chain of these updates lives in."""
        return whitened_at(target, z)

    def transfer(self, key: Key[Array, ""], target: Target, position: Position, tuning: PlainTuning) -> Position:
        """The position on the target of the next draw: at the old ``nu``, or at one drawn from its prior."""
        chart = Whitened(with_window(target, position.place))
        nu = position.nu
        if self.start == "prior":
            nu = jax.random.normal(key, nu.shape, nu.dtype)
        return position_at(target, position.z, nu, chart)

    def sweep(
        self, key: Key[Array, ""], target: Target, position: Position, tuning: PlainTuning, first: bool
    ) -> tuple[Position, SweepInfo]:
        """Algorithm 2 for one draw, or one iteration of the initial chain (``first``)."""
        sweeps = self.initial if first else self.sweeps
        moves: dict[str, Move] = {"latent": lambda key, position, times: move_latent(key, target, position, times)}
        order = [("latent", sweeps.before)]
        if target.kernel_block is not None:
            surrogate = first or self.kernel == "surrogate"
            moves["kernel"] = self._kernel_move(target, target.kernel_block, tuning, surrogate)
            order += [("kernel", 1), ("latent", sweeps.between)]
        # Apart: at fixed f the mean is pinned down, and would hold alpha back on a joint ellipse.
        if target.mean_block is not None:
            moves["mean"] = repeated(lambda key, position: move_mean(key, target, position))
            order += [("mean", sweeps.mean)]
        if target.likelihood_block is not None:
            block = target.likelihood_block
            moves["likelihood"] = repeated(lambda key, position: _move_without_kernel(key, target, position, block))
            order += [("likelihood", 1)]
        return in_turn(key, position, moves, [*order, ("latent", sweeps.after)])

    def _kernel_move(self, target: Target, block: Block, tuning: PlainTuning, surrogate: bool) -> Move:
        if surrogate:
            precision = jnp.asarray(tuning.precision)
            return repeated(lambda key, at: move_kernel_with_surrogate(key, target, at, precision))
        return repeated(lambda key, at: move_parameters(key, target, at, block, lambda z: whitened_at(target, z)))


def move_mean(key: Key[Array, ""], target: Target, position: Position) -> tuple[Position, SliceInfo]:
    """The mean, at fixed ``f`` and then at fixed ``nu``."""
    assert target.mean_block is not None
    key_f, key_nu = jax.random.split(key)
    position, interwoven = interweave_mean(key_f, target, position)
    position, moved = _move_without_kernel(key_nu, target, position, target.mean_block)
    return position, interwoven + moved


def _move_without_kernel(key, target: Target, position: Position, block: Block) -> tuple[Position, SliceInfo]:
    """A block of ``z`` that the covariance does not depend on: nothing is factored, and what was stays outside.

    So nothing can happen to a factorisation: the events of the old one, which the chart still tells, are not counted.
    """
    chart = Whitened(position.place)
    (z, nu, sites, log_likelihood), info = move_parameters(
        key,
        target,
        position,
        block,
        lambda z: chart,
        keep=lambda candidate: (candidate.z, candidate.nu, candidate.sites, candidate.log_likelihood),
    )
    return Position(z, nu, sites, chart, log_likelihood), info._replace(events=Events.none())


def _as_sweeps(value: Any, name: str) -> Sweeps:
    try:
        sweeps = Sweeps(*(int(n) for n in value))
    except TypeError as error:
        raise SamplerError(f"Plain: {name} = {value!r}: expected (before, between, after)") from error
    if min(sweeps) < 0 or sweeps.before + sweeps.between + sweeps.after == 0:
        raise SamplerError(f"Plain: {name} = {value!r}: numbers of repetitions, at least one of the latent")
    return sweeps


def _one_of(value: str, choices: tuple[str, ...], where: str) -> str:
    if value not in choices:
        raise SamplerError(f"{where} = {value!r}: expected {' or '.join(map(repr, choices))}")
    return value
