"""The Kalman filter of kernels with a delay, ``k_t(|u − s·h|) k_x(h)``, at stations that stay: any data, any gaps.

Each place sees a separable field ``g`` at its own local time, ``f(t, x) = g(t − s·x, x)``. With delays ``d_i = s·x_i``
the state of each term is kept at one local time for all stations. The last snapshot is
kept beside it, as what its data say about the latent there: with both, the latent is known at any place and any later
time, also within the spread of the delays. Only the next snapshot moves the state on, to the latest local time of the
last one, ``t − min d``: exact where time passes by at least ``max d − min d`` between snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from seqgp.kernels.base import Parameters, within
from seqgp.linalg.factor import covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.delay_window import station_delays
from seqgp.statespace.dense import DenseFilter, DenseState
from seqgp.statespace.observation import LatentGaussian, Observation, Query
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.transition import apply_moves, latent_of, move_cov
from seqgp.statespace.update import Update, approximate_update, gaussian_update, update_given_sites


class DelayedMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    space: tuple[Float[Array, "M M"], ...]  # scale² K_space of each term at the sites
    delay: Float[Array, "J M"]  # d = s·x
    first: Float[Array, " J"]  # min d, over sites that are not padding
    last: Float[Array, " J"]  # max d
    time_cov: tuple[Float[Array, "M M"], ...]  # k_t(d_i − d_j) of each term
    basis: None = None


class DelayedFilterState(NamedTuple):
    """A Gaussian of the state given all data but the last snapshot's, and what those say.

    With the latent at the sites and the coefficients of the mean, ``v = (f, β)`` at the last snapshot, its data move
    the mean of anything by ``Cov(·, v) slope``; covariances fall by ``fall`` and rise by ``growth``, row by row.
    """

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]
    age: Float[Array, " J"]  # time of the last snapshot minus local time of the state; infinite before any data
    slope: Float[Array, " M+q"]
    fall: Float[Array, "M+q M+q"]
    growth: Float[Array, "k M+q"]  # k = M + q where data can widen what is known, else 0
    pending: Float[Array, ""]  # 1 with a last snapshot, 0 before
    amplitude: Float[Array, " J"]  # of each term's scale at the last snapshot


class _Term(NamedTuple):
    """A term of the kernel in time."""

    move: Callable[[Array], Float[Array, "p p"]]  # A(u)
    stationary: Float[Array, "p p"]  # P
    h: Float[Array, " p"]

    def rows(self, u: Float[Array, " K"]) -> Float[Array, "K p"]:
        """``h'A(u)``."""
        return jnp.einsum("a,kab->kb", self.h, jax.vmap(self.move)(u))

    def cov(self, u: Float[Array, "K L"]) -> Float[Array, "K L"]:
        """``k_t(|u|)`` of the state, which may approximate that of the kernel."""
        known = self.stationary @ self.h
        return jax.vmap(jax.vmap(lambda one: self.h @ self.move(jnp.abs(one)) @ known))(u)


class DelayedFilter(DenseFilter):
    """The filter on sites ``x``; where ``mask`` is false there is only padding, independent of everything."""

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "delayed"

    @property
    def _held(self) -> int:
        return self.sites + len(self.ssm.in_state)

    @property
    def _widens(self) -> bool:
        likelihood = self.ssm.model.likelihood
        return likelihood.pointwise and not likelihood.conjugate and not likelihood.bell_shaped

    def matrices_at(self, parameters: Parameters) -> DelayedMatrices:  # pyright: ignore[reportIncompatibleMethodOverride]
        """From the parameters themselves."""
        space = super().matrices_at(parameters).space
        x, mask = jnp.asarray(self.x), jnp.asarray(self.mask)
        delay = jnp.stack(
            [
                jnp.zeros(self.sites) if name is None else station_delays(parameters[name], x, mask)
                for name in self.ssm.model.kernel.slowness_names()
            ]
        )
        between = delay[:, :, None] - delay[:, None, :]
        time_cov = tuple(term.cov(gap) for term, gap in zip(self._terms(parameters), between))
        return DelayedMatrices(parameters, space, delay, delay.min(axis=1), delay.max(axis=1), time_cov)

    def start(self, matrices: DelayedMatrices) -> DelayedFilterState:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The state before any data: stationary, at any local time."""
        mean, covariance = super().start(matrices)  # pyright: ignore[reportArgumentType]
        age = jnp.full(len(self.ssm.states), jnp.inf)
        nothing = DelayedFilterState(mean, covariance, age, mean, mean, mean, mean, jnp.ones(len(age)))
        return self._nothing_pending(nothing)

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: DelayedMatrices, state: DelayedFilterState, dt: Float[ArrayLike, ""]
    ) -> DelayedFilterState:
        """A time ``dt`` later: the state given the last snapshot too, at its latest local time."""
        terms, m = self._terms(matrices.parameters), self.sites
        age = _placed(state.age, matrices.last)
        rows = self._rows(matrices, age, state.amplitude)
        seen = latent_of([one.T for one in rows], state.covariance.T).T  # Cov(state, Σ a s), (n, M)
        moves = [term.move(step) for term, step in zip(terms, jnp.maximum(age - matrices.first, 0.0))]
        cross, at = apply_moves(moves, seen, m), 0
        for j, (term, a, move) in enumerate(zip(terms, rows, moves)):
            h = state.amplitude[j] * term.h
            ahead = jax.vmap(term.move)(matrices.delay[j] - matrices.first[j]) @ (term.stationary @ h)
            own = (ahead.T - move @ term.stationary @ a.T)[:, None, :] * matrices.space[j][None]
            size = own.shape[0] * m
            cross = cross.at[at : at + size].add(own.reshape(size, m))
            at += size
        cross = jnp.concatenate([cross, apply_moves(moves, state.covariance[:, self.fields :], m)], axis=1)
        mean = apply_moves(moves, state.mean[:, None], m)[:, 0] + cross @ state.slope
        covariance = move_cov(moves, [term.stationary for term in terms], matrices.space, state.covariance)
        known = (state.pending > 0) | jnp.isfinite(state.age)
        return self._nothing_pending(
            state._replace(
                mean=mean,
                covariance=_given(covariance, cross, state),
                age=jnp.where(known, matrices.first + dt, jnp.inf),
            )
        )

    def update(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: DelayedMatrices, state: DelayedFilterState, observation: Observation
    ) -> tuple[DelayedFilterState, Float[Array, ""]]:
        """The state with one more snapshot beside it, and the log density of its data given those before."""
        operator, update = self._of_data(matrices, state, observation)
        state = state._replace(amplitude=self.ssm.amplitudes(matrices.parameters, observation.t))
        return self._beside(state, operator, update), update.log_evidence

    def _beside(self, state: DelayedFilterState, operator: Float[Array, "N M+q"], update: Update) -> DelayedFilterState:
        fall = self._as_rows(solve_lower(update.root, update.scale[:, None] * operator))
        growth = state.growth
        if update.growth is not None and self._widens:
            growth = self._as_rows(update.growth.T @ operator)
        return state._replace(slope=operator.T @ update.slope, fall=fall, growth=growth, pending=jnp.ones(()))

    def given_sites(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: DelayedMatrices, state: DelayedFilterState, observation: Observation, sites: GaussianSites
    ) -> DelayedFilterState:
        """The state with Gaussian sites beside it, in place of the data of a snapshot."""
        operator, f, f_cov = self._at_data(matrices, state, observation)  # pyright: ignore[reportArgumentType]
        state = state._replace(amplitude=self.ssm.amplitudes(matrices.parameters, observation.t))
        return self._beside(state, operator, update_given_sites(sites.tau, sites.nu, f, f_cov))

    def faults(self, matrices, state, observation: Observation) -> Array | None:
        """What is wrong with each datum of a snapshot, as an index of :data:`seqgp.statespace.snapshot_ep.FAULTS`."""
        return self._of_data(matrices, state, observation)[1].fault

    def predict_f(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: DelayedMatrices, state: DelayedFilterState, query: Query
    ) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        design = jnp.asarray(self.ssm.design(query.columns))
        offset = self.ssm.offset(matrices.parameters, query.columns)
        if query.operator is not None:
            index = jnp.asarray(query.operator.index)
            return self._f_at(matrices, state, index, query, design, offset)
        x = jnp.asarray(query.x)
        whole = DelayedFilter(
            self.ssm,
            jnp.concatenate([jnp.asarray(self.x), x]),
            jnp.concatenate([jnp.asarray(self.mask), jnp.ones(x.shape[0], bool)]),
        )
        matrices, state = self.extended(whole, matrices, state)
        return whole._f_at(matrices, state, self.sites + jnp.arange(x.shape[0]), query, design, offset)

    def _f_at(
        self,
        matrices: DelayedMatrices,
        state: DelayedFilterState,
        index: Int[Array, " k"],
        query: Query,
        design: Float[Array, "k q"],
        offset: Float[Array, " k"],
    ) -> LatentGaussian:
        """At sites, a time ``query.dt`` after the last snapshot."""
        age, dt = _placed(state.age, matrices.last), query.dt
        now, then = state.amplitude, self.ssm.amplitudes(matrices.parameters, query.t)
        here, there = self._rows(matrices, age, now), self._rows(matrices, age + dt, then)
        picked = [one.T for one in there]
        asked = latent_of(picked, state.covariance.T).T[:, index]  # Cov(state, latent asked for)
        seen = latent_of([one.T for one in here], state.covariance.T).T
        cov, with_seen = latent_of(picked, asked)[index], latent_of(picked, seen)[index]
        for j, term in enumerate(self._terms(matrices.parameters)):
            delay, space = matrices.delay[j], matrices.space[j][index]
            later = then[j] * now[j] * term.cov(jnp.asarray(dt) - delay[index][:, None] + delay[None, :])
            known = there[j][index] @ term.stationary
            own_time = then[j] ** 2 * matrices.time_cov[j][index][:, index]
            cov += space[:, index] * (own_time - known @ there[j][index].T)
            with_seen += space * (later - known @ here[j].T)
        between, own = asked[self.fields :], state.covariance[self.fields :, self.fields :]
        cross = jnp.block([[seen[self.fields :], own], [with_seen, between.T]])  # of (β, f) asked for with (f, β) seen
        mean = jnp.concatenate([state.mean[self.fields :], latent_of(picked, state.mean[:, None])[index, 0]])
        mean, cov = mean + cross @ state.slope, _given(jnp.block([[own, between], [between.T, cov]]), cross, state)
        q = design.shape[1]
        to_f = jnp.eye(len(mean)).at[q:, :q].set(design)
        return LatentGaussian((to_f @ mean).at[q:].add(offset), to_f @ cov @ to_f.T).symmetric()

    def extended(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, after: DelayedFilter, matrices: DelayedMatrices, state: DelayedFilterState
    ) -> tuple[DelayedMatrices, DelayedFilterState]:
        """On the sites of another filter, of which these are the first: exact, at the local time of each term."""
        fresh, dense = super().extended(after, matrices, DenseState(state.mean, state.covariance))  # pyright: ignore[reportArgumentType]
        more, old = after.sites - self.sites, self.sites

        def wider(rows):  # new sites had no data
            return jnp.concatenate([rows[..., :old], jnp.zeros((*rows.shape[:-1], more)), rows[..., old:]], axis=-1)

        def taller(rows):
            return jnp.pad(wider(rows), ((0, more if rows.shape[0] else 0), (0, 0)))

        return fresh, DelayedFilterState(  # pyright: ignore[reportReturnType]
            *dense, state.age, wider(state.slope), taller(state.fall), taller(state.growth), state.pending,
            state.amplitude,
        )  # fmt: skip

    def earliest(self, parameters: Parameters, state: DelayedFilterState, query: Query) -> Float[np.ndarray, " S"]:
        """For each of many particles, how long after the state's local time new inputs are first asked about."""
        x, found = np.asarray(query.x), np.full(len(np.asarray(state.age)), np.inf)
        for j, name in enumerate(self.ssm.model.kernel.slowness_names()):
            delay = 0.0 if name is None else (np.asarray(parameters[name]) @ x.T).max(axis=1)
            found = np.minimum(found, np.asarray(state.age)[:, j] + float(query.dt) - delay)
        return found

    def _of_data(self, matrices, state, observation: Observation) -> tuple[Float[Array, "N M+q"], Update]:
        """What the data see of ``(f, β)``, and what they do to ``f`` there."""
        parameters, likelihood = matrices.parameters, self.ssm.model.likelihood
        context, line = observation.context, observation.line
        operator, f, f_cov = self._at_data(matrices, state, observation)  # pyright: ignore[reportArgumentType]
        if line is not None:
            return operator, gaussian_update(line.variance(likelihood, context, parameters), observation, f, f_cov)
        if likelihood.conjugate:
            return operator, gaussian_update(likelihood.noise(context, parameters) ** 2, observation, f, f_cov)
        return operator, approximate_update(likelihood, parameters, observation, f, f_cov)

    def _at_data(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: DelayedMatrices, state: DelayedFilterState, observation: Observation
    ) -> tuple[Float[Array, "N M+q"], Float[Array, " N"], Float[Array, "N N"]]:
        """What the data see of ``(f, β)``, and mean and covariance of ``f`` there."""
        parameters, line = matrices.parameters, observation.line
        at_sites = jax.nn.one_hot(jnp.asarray(observation.operator.index), self.sites, dtype=float)
        operator = jnp.concatenate([at_sites, jnp.asarray(observation.design)], axis=1)
        offset = self.ssm.offset(parameters, observation.columns)
        if line is not None:
            slope, shift = line.slope_and_shift(self.ssm.model.likelihood, observation.context, parameters)
            operator, offset = slope @ operator, slope @ offset + shift
        mean, cov = self._now(matrices, state, self.ssm.amplitudes(parameters, observation.t))
        f = operator @ mean + offset
        operator = jnp.where(jnp.asarray(observation.seen)[:, None], operator, 0.0)
        return operator, f, operator @ cov @ operator.T

    def _now(
        self, matrices, state, amplitude: Float[Array, " J"]
    ) -> tuple[Float[Array, " M+q"], Float[Array, "M+q M+q"]]:
        """The latent at the sites at the present time, and the coefficients of the mean, before the present data."""
        rows = self._rows(matrices, _placed(state.age, matrices.last), amplitude)
        weights = [one.T for one in rows]
        seen = latent_of(weights, state.covariance.T).T
        cov = latent_of(weights, seen)
        for j, (term, a) in enumerate(zip(self._terms(matrices.parameters), rows)):
            cov += matrices.space[j] * (amplitude[j] ** 2 * matrices.time_cov[j] - a @ term.stationary @ a.T)
        between, own = seen[self.fields :], state.covariance[self.fields :, self.fields :]
        mean = jnp.concatenate([latent_of(weights, state.mean[:, None])[:, 0], state.mean[self.fields :]])
        return mean, jnp.block([[cov, between.T], [between, own]])

    def _rows(
        self, matrices: DelayedMatrices, age: Float[Array, " J"], amplitude: Float[Array, " J"]
    ) -> list[Float[Array, "M p"]]:
        """``h'A(u)`` of each term times its amplitude, ``u`` from the local time of the state to that of each site."""
        since = jnp.maximum(age[:, None] - matrices.delay, 0.0)
        return [a * term.rows(u) for term, u, a in zip(self._terms(matrices.parameters), since, amplitude)]

    def _terms(self, parameters: Parameters) -> list[_Term]:
        found = []
        for state, own in zip(self.ssm.states, self.ssm.own(parameters)):
            time = within(own, "time")
            found.append(
                _Term(lambda u, s=state, t=time: s.transition(t, u), state.stationary(time), state.observe(time))
            )
        return found

    def _as_rows(self, rows: Float[Array, "N M+q"]) -> Float[Array, "M+q M+q"]:
        """As many rows as columns, with the same ``rows' rows``."""
        if len(rows) > self._held:  # several data at one site
            return covariance_root(rows.T @ rows).T
        return jnp.pad(rows, ((0, self._held - len(rows)), (0, 0)))

    def _nothing_pending(self, state: DelayedFilterState) -> DelayedFilterState:
        held = self._held
        return state._replace(
            slope=jnp.zeros(held),
            fall=jnp.zeros((held, held)),
            growth=jnp.zeros((held if self._widens else 0, held)),
            pending=jnp.zeros(()),
        )


def _placed(age: Float[Array, " J"], last: Float[Array, " J"]) -> Float[Array, " J"]:
    """A finite age: a state that no data have seen is the same at any local time."""
    return jnp.where(jnp.isinf(age), last, age)


def _given(cov: Float[Array, "k k"], cross: Float[Array, "k M+q"], state: DelayedFilterState) -> Float[Array, "k k"]:
    """A covariance given the data of the last snapshot, from that with the latent there."""
    half, more = cross @ state.fall.T, cross @ state.growth.T
    return cov - half @ half.T + more @ more.T
