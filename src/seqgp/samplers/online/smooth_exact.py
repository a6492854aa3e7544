"""The past of data that are not Gaussian, without the error of EP: whole paths, weighted as the correction weighs them.

All particles are evaluated anew at the end of the data, as a refresh does. Particles are drawn by their new weights,
the paths of each drawn one replayed from its key, and one of them drawn by its weight.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.linalg.types import Array
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.samplers.ibis import systematic
from seqgp.samplers.online.exact import evaluate_with, path_seeds, refined_sites, shared_history
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.state import OnlineState
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.filter_history import likelihood_is_known, observed_history
from seqgp.statespace.observation import Observation
from seqgp.statespace.paths import segments_for, smc_paths, trace_paths
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.smoother import draw_at_inputs


class PathsOfThePast(NamedTuple):
    """Of each draw: the value of the parameters, and the latent at sites, at fresh inputs, and the coefficients."""

    z: Float[np.ndarray, "draws d"]
    rows: Float[np.ndarray, "draws T k"]


def paths_of_the_past(
    key: Key[Array, ""],
    history: Timeline,
    state: OnlineState,
    index: np.ndarray,
    times: np.ndarray,
    fresh: np.ndarray | None,
    draws: int,
) -> PathsOfThePast:
    """Draws of parameters and whole paths, together.

    Args:
        key: a random key.
        history: all data, and the times asked for among them.
        state: with the particles.
        index: of the times asked for.
        times: those times.
        fresh: inputs that are no sites.
        draws: how many.
    """
    assert state.correction is not None
    key_evaluate, key_draws = jax.random.split(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key_evaluate)))
    first = sum(snapshot.t <= state.fixed_until for snapshot in history.snapshots)
    shared, _ = shared_history(history, state.correction.central, first)
    z, paths = np.asarray(state.particles.z), state.correction.paths
    seeds = path_seeds(rng, len(z))
    found = evaluate_with(history, shared, z, paths, seeds)
    past = 0.0 if state.memory is None else state.memory.log_evidence.at(z)
    weighted = state.particles._replace(log_evidences=past + found.log_evidence, log_increment=found.log_increment)
    particle = systematic(rng, weighted.weights(), draws)
    keys = jax.random.split(key_draws, draws)
    known = len(history.layout.x) if history.layout.knots is None else None
    pieces = np.array_split(np.arange(draws), min(cores(), draws))
    tasks = [
        compiled(_replayed, *shared, z[particle[i]], seeds[particle[i]], keys[i], index, times, fresh, known, paths)[0]
        for i in pieces
    ]
    return PathsOfThePast(z[particle], np.concatenate([np.asarray(part) for part in in_threads(tasks)]))


def _replayed(
    filter: DenseFilter,
    observations: Observation,
    length,
    sites: GaussianSites,
    first,
    z,
    seeds,
    keys,
    index,
    times,
    fresh,
    known: int | None,
    paths: int,
):
    """One path for each value of ``z`` and its seed, by weight, as the latent at the times asked for."""
    segments = segments_for(len(observations.dt), filter.fields + len(filter.ssm.in_state))

    def one(inputs):
        z, seed, key = inputs
        key_path, key_fresh = jax.random.split(key)
        matrices = filter.matrices(z)
        history, log_prob = observed_history(filter, matrices, observations, length)
        own = refined_sites(history, log_prob, sites, likelihood_is_known(filter.ssm.model), length, first)
        seed = jax.random.wrap_key_data(seed, impl="threefry2x32")
        found = smc_paths(
            seed,
            history,
            log_prob,
            own,
            paths=paths,
            segments=segments,
            trace=True,
            length=length,
            first=0 if first is None else first,
        )
        assert found.states is not None
        assert found.ancestors is not None
        slot = jax.random.categorical(key_path, found.log_weights)
        path = trace_paths(found.states, found.ancestors)[:, slot][index]
        shown = filter.shown(matrices, path, times)
        if known is not None:
            shown = jnp.concatenate([shown[:, :known], shown[:, filter.sites :]], axis=1)
        if fresh is None:
            return shown
        more = draw_at_inputs(key_fresh, filter, matrices, path, times, fresh)
        return jnp.concatenate([shown[:, :known], more, shown[:, known:]], axis=1)

    return jax.lax.map(one, (z, seeds, keys))
