"""A model as a state-space model: its terms as states, and which coefficients of the mean belong to the state."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from seqgp.base.priors import FromDistribution, Prior
from seqgp.base.snapshot import Context
from seqgp.kernels.base import Parameters, Prepared, within
from seqgp.kernels.states import ORDER, TimeState
from seqgp.likelihoods.gaussian import RATIOS
from seqgp.linalg.types import ArrayLike
from seqgp.model import Model


class Transition(NamedTuple):
    """From one time to another: ``s' = A s + noise``, with noise of covariance ``Q_j ⊗ K_j`` for each term."""

    move: Float[Array, "p p"]  # A
    noise: tuple[Float[Array, "p p"], ...]  # Q_j


class StateSpaceModel(eqx.Module):
    """What a filter needs of a model.

    The particles' ``z`` holds every inferred entry but the coefficients of the mean with a Gaussian prior: those are
    appended to the state, and so integrated out.
    """

    model: Model
    states: tuple[TimeState, ...]
    in_particles: tuple[int, ...] = eqx.field(static=True)  # entries of the model's z
    in_state: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, model: Model, order: int = ORDER):
        self.model = model
        self.states = tuple(term.time.state(order) for _, term in model.kernel.terms())
        self.in_state = tuple(i for i, (name, prior) in enumerate(model.entries()) if _linear(name, prior))
        self.in_particles = tuple(i for i in range(len(model.names)) if i not in self.in_state)

    @property
    def order(self) -> int:
        """Components of the state at each site, over all terms."""
        return sum(state.order for state in self.states)

    @property
    def error(self) -> float:
        """The largest error of a time correlation."""
        return max(state.error for state in self.states)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The values of the time kernels' parameters that fitted states cover, by the parameters' names."""
        prefixes = [prefix for prefix, _ in self.model.kernel.terms()]
        each = [(prefix, getattr(state, "ranges", {})) for prefix, state in zip(prefixes, self.states)]
        return {f"{prefix}time.{name}": ends for prefix, ranges in each for name, ends in ranges.items()}

    @property
    def names(self) -> list[str]:
        """The names of the entries of the particles' ``z``."""
        return [self.model.names[i] for i in self.in_particles]

    def particle_prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of the particles' ``z`` before any data."""
        mean, covariance = self.model.prior_of_z()
        chosen = np.array(self.in_particles, dtype=int)
        return mean[chosen], np.sqrt(np.diag(covariance)[chosen])

    def parameters(self, z: Float[Array, " d"]) -> Parameters:
        """All parameters at one ``z`` of the particles; coefficients in the state are at their prior mean.

        Where stations have noises of their own, the logarithms of their ratios follow the entries of ``z``.
        """
        d = len(self.in_particles)
        found = self.model.parameters(self.whole_z(z[:d], jnp.zeros(len(self.in_state))))
        return found if len(z) == d else found | {RATIOS: jnp.exp(z[d:])}

    def whole_z(self, z: Float[Array, " d"], coefficients: Float[Array, " q"]) -> Float[Array, " m"]:
        """The model's ``z`` from the particles' and from standardised coefficients."""
        order = np.argsort(np.array(self.in_particles + self.in_state, dtype=int))
        return jnp.concatenate([z, coefficients])[order]

    def coefficient_scales(self) -> Float[Array, " q"]:
        """The prior sd of each coefficient in the state; traced where a prior's parameters are arrays."""
        entries = self.model.entries()
        return jnp.array([_normal(entries[i][1]).scale for i in self.in_state], dtype=float)

    def transition(self, parameters: Parameters, dt: Float[ArrayLike, ""]) -> Transition:
        """Over a time ``dt``."""
        moves, noises = [], []
        for state, own in zip(self.states, self.own(parameters)):
            time = within(own, "time")
            move, stationary = state.transition(time, dt), state.stationary(time)
            moves.append(move)
            noises.append(stationary - move @ stationary @ move.T)
        return Transition(block_diag(*moves), tuple(noises))

    def stationary(self, parameters: Parameters) -> tuple[Float[Array, "p p"], ...]:
        """The covariance of each term's state at any one time, without space."""
        return tuple(s.stationary(within(own, "time")) for s, own in zip(self.states, self.own(parameters)))

    def observe(self, parameters: Parameters, t: ArrayLike | None) -> Float[Array, " p"]:
        """``h(t)``: the latent at a site is ``h's``. ``None`` stands for a time at which no scale is raised."""
        return jnp.concatenate(self._observed_terms(parameters, t))

    def amplitudes(self, parameters: Parameters, t: ArrayLike) -> Float[Array, " J"]:
        """The factor of each term's scale at a time; 1 without a season."""
        found = zip(self.model.kernel.terms(), self.own(parameters))
        each = [term.amplitude(own, t) for (_, term), own in found]
        return jnp.stack([jnp.ones(()) if one is None else jnp.asarray(one) for one in each])

    def term_variances(self, parameters: Parameters, t: ArrayLike | None) -> Float[Array, " J"]:
        """``h_j' P_j h_j`` of each term: its variance at one time, without space."""
        found = zip(self._observed_terms(parameters, t), self.stationary(parameters))
        return jnp.stack([h @ stationary @ h for h, stationary in found])

    def _observed_terms(self, parameters: Parameters, t: ArrayLike | None) -> list[Float[Array, " p"]]:
        found = []
        for state, (_, term), own in zip(self.states, self.model.kernel.terms(), self.own(parameters)):
            h, amplitude = state.observe(within(own, "time")), None if t is None else term.amplitude(own, t)
            found.append(h if amplitude is None else amplitude * h)
        return found

    def space(self, parameters: Parameters, prepared: tuple[Prepared, ...]) -> tuple[Float[Array, "n m"], ...]:
        """``scale² K_space`` of each term, which may be singular: filters factor no such matrix, and add no jitter."""
        found = []
        for (_, term), own, distances in zip(self.model.kernel.terms(), self.own(parameters), prepared):
            matrix = term.space.covariance(distances, within(own, "space"))
            found.append(own["scale"] ** 2 * matrix)
        return tuple(found)

    def sd(self, parameters: Parameters) -> float:
        """The standard deviation of the latent, for space kernels of variance one."""
        return math.hypot(*(float(own["scale"]) for own in self.own(parameters)))

    def distances(self, x: Float[ArrayLike, "n D"], other: Float[ArrayLike, "m D"]) -> tuple[Prepared, ...]:
        """What the space kernels need of the inputs."""
        return tuple(term.space.prepare(x, other) for _, term in self.model.kernel.terms())

    def columns(self, t: float, x: np.ndarray, context: Context) -> Float[np.ndarray, "n Q"]:
        """The columns of the mean at inputs: the mean is their product with its coefficients."""
        return self.model.mean_function.design(t, x, context)

    def design(self, columns: Float[ArrayLike, "n Q"]) -> Float[ArrayLike, "n q"]:
        """Those columns whose coefficients are in the state."""
        held = {self.model.names[i] for i in self.in_state}
        return columns[:, [i for i, name in enumerate(self.model.mean_function.names) if name in held]]

    def offset(self, parameters: Parameters, columns: Float[ArrayLike, "n Q"]) -> Float[Array, " n"]:
        """The mean, with the coefficients that are in the state at their prior mean."""
        return jnp.asarray(columns) @ self.model.mean_function.coefficients(parameters)

    def own(self, parameters: Parameters) -> list[Parameters]:
        """The parameters of each term, without its prefix."""
        prefixes = [prefix for prefix, _ in self.model.kernel.terms()]
        return [within(parameters, prefix[:-1]) if prefix else parameters for prefix in prefixes]


def _normal(prior: Prior) -> dist.Normal:
    assert isinstance(prior, FromDistribution)
    assert isinstance(prior.distribution, dist.Normal)
    return prior.distribution


def _linear(name: str, prior: Prior) -> bool:
    """Whether an entry is a coefficient of the mean with a Gaussian prior."""
    normal = isinstance(prior, FromDistribution) and type(prior.distribution) is dist.Normal
    return normal and (name == "mean" or name.startswith("mean."))
