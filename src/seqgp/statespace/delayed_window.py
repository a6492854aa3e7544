"""The filter of kernels with a delay where snapshots come sooner than delays spread: any data, any gaps.

The state of each term (:mod:`seqgp.statespace.delay_window`) lies behind the last snapshot by its ``lag``, a little
more than its largest delay, and beside it are the values of the term at the last ``W`` snapshots. All data are
conditioned on as they come. The vector is ``(s_1 … s_J, g_1 … g_J, β)``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from seqgp.kernels.base import Parameters, within
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.delay_window import DelayedField, station_delays, window_step
from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState
from seqgp.statespace.gauss_markov import GaussMarkov, gauss_markov
from seqgp.statespace.observation import LatentGaussian, Observation, Query, SiteOperator
from seqgp.statespace.site_filter import GaussianSites

SLACK = 0.5  # of the spread of delays: how much further back than the stations see the states are kept


class WindowMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    space: tuple[Float[Array, "M M"], ...]  # scale² K_space of each term at the sites
    delay: Float[Array, "J M"]  # d = s·x
    lag: Float[Array, " J"]
    basis: None = None


class WindowFilterState(NamedTuple):
    """A Gaussian given the data so far; ``age`` is the time since each snapshot in the window, infinite without one."""

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]
    age: Float[Array, " W"]


def window_needed(times: Float[np.ndarray, " T"], spread: float) -> int:
    """The most snapshots that states kept ``(1 + SLACK) spread`` behind have not passed."""
    reach = (1 + SLACK) * spread
    return max(int(np.sum((times <= t) & (times > t - reach))) for t in times)


class DelayedWindowFilter(DenseFilter):
    """The filter on sites ``x``; where ``mask`` is false there is only padding.

    Attributes:
        known: the sites whose values in the window are meant: all but those that have only been asked about.
        window: how many snapshots are in it.
    """

    known: Bool[ArrayLike, " M"]
    window: int

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "delayed, windowed"

    @property
    def fields(self) -> int:
        """The length of the vector without coefficients of the mean."""
        return self._in_states + len(self.ssm.states) * self.window * self.sites

    @property
    def _in_states(self) -> int:
        return self.ssm.order * self.sites

    def matrices_at(self, parameters: Parameters) -> WindowMatrices:  # pyright: ignore[reportIncompatibleMethodOverride]
        """From the parameters themselves."""
        space = super().matrices_at(parameters).space
        x, mask = jnp.asarray(self.x), jnp.asarray(self.mask)
        delay = jnp.stack(
            [
                jnp.zeros(self.sites) if name is None else station_delays(parameters[name], x, mask)
                for name in self.ssm.model.kernel.slowness_names()
            ]
        )
        last = delay.max(axis=1)
        return WindowMatrices(parameters, space, delay, last + SLACK * (last - delay.min(axis=1)))

    def start(self, matrices: WindowMatrices) -> WindowFilterState:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The state before any data: stationary, an empty window."""
        mean, covariance = super().start(matrices)  # pyright: ignore[reportArgumentType]
        n, empty = self._in_states, self.fields - self._in_states
        order = np.r_[0:n, len(mean) : len(mean) + empty, n : len(mean)]
        whole = jnp.pad(covariance, (0, empty))[order][:, order]
        return WindowFilterState(jnp.zeros(len(order)), whole, jnp.full(self.window, jnp.inf))

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: WindowMatrices, state: WindowFilterState, dt: Float[ArrayLike, ""]
    ) -> WindowFilterState:
        """A time ``dt`` later, with the values of a new snapshot in the window."""
        step = window_step(self._terms(matrices), state.age, dt, 0, lags=matrices.lag, known=self.known)
        n = self.fields

        def moved(rows):  # (k, n + q)
            return jnp.concatenate([rows[:, :n] @ step.move.T, rows[:, n:]], axis=1)

        covariance = moved(moved(state.covariance).T).at[:n, :n].add(step.noise)
        age = jnp.concatenate([jnp.zeros(1), state.age[:-1] + dt])
        return WindowFilterState(moved(state.mean[None])[0], 0.5 * (covariance + covariance.T), age)

    def update(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: WindowMatrices, state: WindowFilterState, observation: Observation
    ) -> tuple[WindowFilterState, Float[Array, ""]]:
        """The state given one more snapshot, and the log density of its data given those before."""
        found, log_evidence = super().update(matrices, state, observation)  # pyright: ignore[reportArgumentType]
        return WindowFilterState(*found, state.age), log_evidence

    def update_with_sites(
        self, matrices: PyTree, state: PyTree, observation: Observation
    ) -> tuple[PyTree, GaussianSites]:
        """The state given one more snapshot that is not Gaussian, and the sites of EP in the latent function itself."""
        found, sites = super().update_with_sites(matrices, state, observation)
        return WindowFilterState(*found, state.age), sites

    def given_sites(self, matrices: PyTree, state: PyTree, observation: Observation, sites: GaussianSites) -> PyTree:
        """The state given Gaussian sites in place of the data of a snapshot."""
        return WindowFilterState(*super().given_sites(matrices, state, observation, sites), state.age)

    def history_prior(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: WindowMatrices, dts: Float[Array, " T"], times: Float[Array, " T"]
    ) -> tuple[GaussMarkov, Float[Array, "T p"]]:
        """The vectors at many times as one field at a single site; data see its values at the newest snapshot."""
        terms, start = self._terms(matrices), self.start(matrices)

        def one_step(age, dt):
            step = window_step(terms, age, dt, 0, lags=matrices.lag, known=self.known)
            return jnp.concatenate([jnp.zeros(1), age[:-1] + dt]), (step.move, step.noise)

        _, (move, noise) = jax.lax.scan(one_step, start.age, dts)
        first = jax.scipy.linalg.block_diag(move[0], jnp.eye(len(self.ssm.in_state)))
        cov = (first @ start.covariance @ first.T).at[: self.fields, : self.fields].add(noise[0])
        prior = gauss_markov(0.5 * (cov + cov.T), move, (noise,), (jnp.ones((1, 1)),))
        amplitudes = jax.vmap(lambda t: self.ssm.amplitudes(matrices.parameters, t))(times)
        rows = jnp.zeros((len(dts), self.fields // self.sites))
        return prior, rows.at[:, np.array(self._newest()) // self.sites].set(amplitudes)

    def predict_f(self, matrices: PyTree, state: PyTree, query: Query) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        design = jnp.asarray(self.ssm.design(query.columns))
        offset = self.ssm.offset(matrices.parameters, query.columns)
        if query.operator is not None:
            later = self.predict(matrices, state, query.dt)
            later = jax.tree.map(lambda new, old: jnp.where(jnp.asarray(query.dt) > 0, new, old), later, state)
            return self.at_data(matrices, later, query.operator, design, offset, query.t)
        x = jnp.asarray(query.x)
        whole = DelayedWindowFilter(
            self.ssm,
            jnp.concatenate([jnp.asarray(self.x), x]),
            jnp.concatenate([jnp.asarray(self.mask), jnp.ones(len(x), bool)]),
            jnp.concatenate([jnp.asarray(self.known), jnp.zeros(len(x), bool)]),
            self.window,
        )
        fresh, wider = self.extended(whole, matrices, state)
        later = whole.predict(fresh, wider, query.dt)  # pyright: ignore[reportArgumentType]
        index = SiteOperator(index=self.sites + jnp.arange(len(x)))
        return whole.at_data(fresh, later, index, design, offset, query.t)  # pyright: ignore[reportArgumentType]

    def extended(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, after: PyTree, matrices: WindowMatrices, state: WindowFilterState
    ) -> tuple[WindowMatrices, WindowFilterState]:
        """On the sites of another filter, of which these are the first; the window has no values at the new ones."""
        plain, wide = DenseFilter(self.ssm, self.x, self.mask), DenseFilter(self.ssm, after.x, after.mask)
        before = DenseMatrices(matrices.parameters, matrices.space)
        n, q, none = self._in_states, len(self.ssm.in_state), jnp.zeros((self._in_states + len(self.ssm.in_state),) * 2)

        def column(unit):
            return plain.extended(wide, before, DenseState(unit, none))[1].mean

        unseen = plain.extended(wide, before, DenseState(none[0], none))[1].covariance[: wide.fields, : wide.fields]
        of_states = jax.vmap(column, out_axes=1)(jnp.eye(n + q))[: wide.fields, :n]
        keep = jnp.kron(jnp.eye(len(self.ssm.states) * self.window), jnp.eye(after.sites, self.sites))
        whole = jax.scipy.linalg.block_diag(of_states, keep, jnp.eye(q))
        covariance = (whole @ state.covariance @ whole.T).at[: wide.fields, : wide.fields].add(unseen)
        fresh = after.matrices_at(matrices.parameters)._replace(lag=matrices.lag)
        return fresh, WindowFilterState(whole @ state.mean, covariance, state.age)

    def earliest(self, parameters: Parameters, state: WindowFilterState, query: Query) -> Float[np.ndarray, " S"]:
        """For each of many particles, how long after the state's local time new inputs are first asked about."""
        x, here = np.asarray(query.x), np.asarray(self.x)[np.asarray(self.mask)]
        found = np.full(len(np.asarray(state.age)), np.inf)
        for name in self.ssm.model.kernel.slowness_names():
            slowness = np.zeros((len(found), x.shape[1])) if name is None else np.asarray(parameters[name])
            at = slowness @ here.T
            lag = at.max(axis=1) + SLACK * np.ptp(at, axis=1)
            found = np.minimum(found, lag + float(query.dt) - (slowness @ x.T).max(axis=1))
        return found

    def _weights(self, parameters: Parameters, t: ArrayLike) -> Float[Array, " J"]:
        """The amplitude of each term: the window has its values without."""
        return self.ssm.amplitudes(parameters, t)

    def _latent(self, h: Float[Array, "J *k 1"], rows: Float[Array, "k n"]) -> Float[Array, "k M"]:
        """The values of all terms at the newest snapshot, times their amplitudes."""
        return sum(a * rows[:, first : first + self.sites] for a, first in zip(h, self._newest()))  # pyright: ignore[reportReturnType]

    def _seen_by_columns(self, h: Float[Array, " p"], columns, operator: SiteOperator, design) -> Float[Array, "N k"]:
        """Each column as the data see it."""
        return self._seen_by(h, columns.T, operator, design).T

    def _newest(self) -> list[int]:
        """Where the values of each term at the newest snapshot begin."""
        return [self._in_states + j * self.window * self.sites for j in range(len(self.ssm.states))]

    def _terms(self, matrices: WindowMatrices) -> list[DelayedField]:
        found = []
        for j, (state, own) in enumerate(zip(self.ssm.states, self.ssm.own(matrices.parameters))):
            time = within(own, "time")
            found.append(
                DelayedField(
                    lambda u, s=state, t=time: s.transition(t, u),
                    state.stationary(time),
                    state.observe(time),
                    matrices.space[j],
                    matrices.delay[j],
                )
            )
        return found
