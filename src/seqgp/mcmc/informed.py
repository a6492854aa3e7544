"""Informed updates: ellipses drawn from an approximate posterior, corrected exactly.

Before the sweeps a quadratic approximation of the log likelihood is found and frozen. The latent moves in coordinates
that it tilts, at fixed parameters; all parameters move together at fixed coordinates, while the latent follows its
conditional posterior. For a Gaussian likelihood the approximation is exact: the first is an independent draw, the
second slice sampling of the marginal likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import SamplerError
from seqgp.linalg.factor import cholesky
from seqgp.linalg.types import Array
from seqgp.mcmc.charts import Quadratic, Tilted, retilt, tilt
from seqgp.mcmc.gaussian import Block, log_normal_density
from seqgp.mcmc.moves import Move, SweepInfo, in_turn, move_latent, move_parameters, repeated
from seqgp.mcmc.plain import Plain
from seqgp.mcmc.student import Student
from seqgp.mcmc.target import Place, Position, Target, place_at, position_at, with_window
from seqgp.mcmc.updates import Exploration, QuadraticApproximation, Schedule, Tuned, WarmUp

STAGES = (0.2, 0.5, 1.0)  # of the warm-up, after each of which approximation and ellipse are found anew


class InformedTuning(NamedTuple):
    """What is found before the sweeps, and then frozen: the approximation, and the ellipse of ``z``."""

    approximation: QuadraticApproximation
    ellipse: Student


class Informed(eqx.Module):
    """Updates for likelihoods that JAX can differentiate: slices along ellipses of an approximate posterior.

    Args:
        latent: repetitions of the latent's update in a sweep.
        parameters: repetitions of the parameters' update in a sweep.
        sweeps: sweeps per draw, for posteriors far from Gaussian: precise data of a nonlinear model.
        inflate: how much wider than the moments of the warm-up the ellipse of the parameters is, as a variance.
        adapt: draws per chain, at each step after the first, to adapt the quadratic approximation and the ellipse;
            for data that may surprise. By default both follow from the carried moments.
    """

    latent: int = eqx.field(static=True, default=1)
    parameters: int = eqx.field(static=True, default=1)
    inflate: float = eqx.field(static=True, default=1.5)
    adapt: int = eqx.field(static=True, default=0)
    sweeps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if min(self.latent, self.parameters, self.sweeps) < 1:
            raise SamplerError("Informed: latent, parameters and sweeps are numbers of repetitions, at least 1")
        if self.adapt < 0:
            raise SamplerError(f"Informed: adapt = {self.adapt} is a number of sweeps, at least 0")
        if not self.inflate >= 1:
            raise SamplerError(f"Informed: inflate = {self.inflate} is below 1; the ellipse must not be too narrow")

    @property
    def name(self) -> str:
        """``"informed"``."""
        return "informed"

    @property
    def needs_gradient(self) -> bool:
        """The approximation is made of derivatives."""
        return True

    def schedule(self, first: bool) -> Schedule:
        """Tuned in stages before the initial sample, and with ``adapt`` before every step."""
        remedy = "thin, warmup or draws" if first else "draws, or Informed(sweeps=…, adapt=…)"
        stages = STAGES if first or self.adapt else ()
        return Schedule(warmup=200, thin=1, least=self.adapt, stages=stages, remedy=remedy)

    def tune(self, target: Exploration) -> Tuned:
        """The approximation at the most probable latent given the prior mean of ``z``; the ellipse is the prior's.

        Where the search for that point fails, plain updates are used.
        """
        reached = target.search(target.mean)
        if not bool(reached.converged):
            spent = f"{int(reached.iterations)} iterations"
            remark = f"the point for informed updates was not found ({spent}): plain updates were used"
            return Plain().tune(target)._replace(remarks=(remark,))
        root = np.linalg.cholesky(target.covariance) if len(target.mean) else np.zeros((0, 0))
        return Tuned(self, InformedTuning(reached.approximation, Student(target.mean, root)))

    def retune(self, target: Exploration, tuning: InformedTuning, warm: WarmUp) -> InformedTuning:
        """At the mean of the second half of a stage, with its moments.

        While chains have not met, the mean of their latents is no likely point, and an approximation there would hold
        them where they are: the search starts anew, at the mean of their parameters. After the last stage the mean of
        the latents is a better point than the mode.
        """
        half = warm.z.shape[1] // 2
        z, sites = warm.z[:, half:].mean((0, 1)), warm.sites[:, half:].mean((0, 1))
        if warm.last or target.quadratic:
            approximation = target.approximation(sites, z)
        else:
            reached = target.search(z)
            approximation = reached.approximation if bool(reached.converged) else tuning.approximation
        return InformedTuning(approximation, self._ellipse(target, np.concatenate(warm.z[:, half:])))

    def _ellipse(self, target: Exploration, z: Float[np.ndarray, "n d"]) -> Student:
        """Moments of the warm-up, inflated; where draws are too few, those of the prior."""
        prior_mean, prior = target.mean, target.covariance
        if len(z) < 10 * max(z.shape[1], 1) or z.shape[1] == 0:
            return Student(prior_mean, np.linalg.cholesky(prior) if z.shape[1] else prior)
        mean = z.mean(axis=0)
        covariance = self.inflate * np.atleast_2d(np.cov(z, rowvar=False)) + 1e-6 * prior
        keep = target.uninformed
        mean[keep], covariance[keep], covariance[:, keep] = prior_mean[keep], prior[keep], prior[:, keep]
        return Student(mean, np.linalg.cholesky(covariance))

    def chart_at(self, target: Target, z: Float[Array, " d"], tuning: InformedTuning) -> Tilted:
        """The coordinates that a chain of these updates lives in."""
        return chart_of(target, place_at(target, z), z, tuning.approximation)

    def transfer(self, key: Key[Array, ""], target: Target, position: Position, tuning: InformedTuning) -> Position:
        """The position on the target of the next draw: the coordinates stay, the window is new."""
        chart = position.chart
        assert isinstance(chart, Tilted)
        coordinates = chart.coordinates(position.nu)
        place = with_window(target, position.place)
        quadratic = quadratic_at(target, position.z, tuning.approximation)
        chart = retilt(chart._replace(place=place), target.root(place.conditional), quadratic)
        return position_at(target, position.z, chart.centre() + chart.centred_nu(coordinates), chart)

    def sweep(
        self, key: Key[Array, ""], target: Target, position: Position, tuning: InformedTuning, first: bool
    ) -> tuple[Position, SweepInfo]:
        """All parameters at fixed coordinates of the latent, then the latent."""
        moves: dict[str, Move] = {"latent": lambda key, position, times: move_latent(key, target, position, times)}
        order = [("latent", self.latent)]
        if target.mean.shape[0]:
            prior_root = cholesky(target.covariance)
            everything = jnp.arange(target.mean.shape[0])

            def correction(candidate: Position) -> Float[Array, ""]:
                """From the distribution that ellipses are drawn from to the prior of ``z``."""
                prior = log_normal_density(candidate.z, target.mean, prior_root)
                return prior - tuning.ellipse.log_density(candidate.z)

            def move(key, position):
                key_width, key_move = jax.random.split(key)
                ellipse = tuning.ellipse
                mean, root = jnp.asarray(ellipse.mean), ellipse.width(key_width, position.z) * ellipse.root
                block = Block(everything, everything[:0], mean, jnp.zeros((len(everything), 0)), root)
                return move_parameters(
                    key_move, target, position, block, lambda z: self.chart_at(target, z, tuning), correction
                )

            moves["parameters"] = repeated(move)
            order = [("parameters", self.parameters), *order]
        once = repeated(lambda key, position: in_turn(key, position, moves, order))
        return once(key, position, self.sweeps)


def quadratic_at(target: Target, z: Float[Array, " d"], approximation: QuadraticApproximation) -> Quadratic:
    """The approximation in the zero-mean sites, at the noise and the mean of ``z``."""
    known = target.log_precision(z)
    scale = jnp.exp(known + jnp.clip(jnp.dot(approximation.growth, z - approximation.centre), -6.0, 6.0))
    unit = Quadratic(jnp.asarray(approximation.factor), jnp.asarray(approximation.slope))
    beyond = target.covariates() @ target.covariate_weights(z)
    mean = target.constant_mean(z) + beyond
    return Quadratic(jnp.sqrt(scale) * unit.factor, scale * (unit.slope - unit.curve(mean)))


def chart_of(target: Target, place: Place, z: Float[Array, " d"], approximation: QuadraticApproximation) -> Tilted:
    """The tilted coordinates at a place."""
    return tilt(place, target.root(place.conditional), quadratic_at(target, z, approximation))
