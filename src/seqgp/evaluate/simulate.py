"""Parameters, latent and data drawn from a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from seqgp.base.errors import DataError, ModelError
from seqgp.base.snapshot import Snapshot
from seqgp.fields.operators import root_with_jitter
from seqgp.likelihoods.gaussian import CONCENTRATION, RATIOS, STATION
from seqgp.model import Model
from seqgp.runtime.engine import compiled


class Simulation(NamedTuple):
    """Parameters, latent function and data, drawn from a model.

    Attributes:
        snapshots: the design with simulated data.
        z: the parameters as standard-form Gaussians, ``(d,)``.
        f: the latent function at the inputs of each snapshot, its mean included.
    """

    snapshots: tuple[Snapshot, ...]
    z: np.ndarray
    f: tuple[np.ndarray, ...]

    @property
    def levels(self) -> tuple[np.ndarray, ...]:
        """Now ``f``."""
        raise AttributeError("Simulation.levels is now Simulation.f")

    def finite(self) -> bool:
        """Whether everything could be drawn."""
        return all(np.isfinite(values).all() for values in self.f)


def default_design(model: Model, n: int = 10, steps: int = 1) -> tuple[Snapshot, ...]:
    """``n`` well spread inputs in the unit cube, the same at each of ``steps`` times a quarter apart."""
    dimension = next((d for d in range(1, 20) if _takes(model, d)), 1)
    from scipy.stats import qmc

    x = qmc.Halton(dimension, rng=0).random(n)
    return tuple(Snapshot(t=0.25 * i, x=x, y=np.zeros(n)) for i in range(steps))


def _takes(model: Model, dimension: int) -> bool:
    try:
        model.kernel.check_inputs(np.zeros((1, dimension)))
    except ModelError:
        return False
    return True


def simulate(key: Key[Array, ""], model: Model, design: Sequence[Snapshot] | Snapshot) -> Simulation:
    """Draw ``z``, the latent function at all times, and the data.

    Args:
        key: a random key.
        model: the model.
        design: snapshots whose ``t``, ``x`` and ``context`` are kept; ``y`` is replaced, but stays missing where NaN.
    """
    design = (design,) if isinstance(design, Snapshot) else tuple(design)
    if not design or not all(isinstance(one, Snapshot) for one in design):
        raise DataError("simulate: expected snapshots, whose t and x say where the data are drawn")
    check_sampling(model, design)
    times = np.concatenate([np.full(len(s.x), s.t) for s in design])
    x = np.concatenate([s.x for s in design])
    contexts = tuple(jax.tree.map(np.asarray, model.likelihood.context_at(s.t, s.context)) for s in design)
    stations = 0
    if model.likelihood.by_station:
        places, number = np.unique(x, axis=0, return_inverse=True)
        each = np.split(number.reshape(-1), np.cumsum([len(s.x) for s in design])[:-1])
        contexts = tuple({**(context or {}), STATION: one} for context, one in zip(contexts, each))
        stations = len(places)
    sizes = tuple(len(s.x) for s in design)
    columns = np.concatenate([model.mean_function.design(s.t, s.x, s.context) for s in design])
    run, _ = compiled(_draw, model, times, x, columns, contexts, sizes, stations, key)
    z, f, data = jax.tree.map(np.asarray, run())
    if not all(np.isfinite(values).all() for values in f):
        # A snapshot may hold no infinite or unknown inputs, but its data may be missing.
        data = tuple(np.full(s.y.shape, np.nan) for s in design)
    snapshots = tuple(
        Snapshot(t=s.t, x=s.x, y=np.where(np.isnan(s.y), np.nan, y), context=s.context) for s, y in zip(design, data)
    )
    return Simulation(snapshots, z, tuple(f))


def check_sampling(model: Model, design: Sequence[Snapshot]) -> None:
    """Raise unless data can be drawn from the likelihood; nothing is computed."""
    snapshot = design[-1]

    def probe(key, f):
        parameters = model.parameters(jnp.asarray(model.prior_of_z()[0]))
        context = model.likelihood.context_at(snapshot.t, snapshot.context)
        context, parameters = model.likelihood.typical(len(snapshot.x), context, parameters)
        return model.likelihood.distribution(f, context, parameters).sample(key)

    shape = jax.ShapeDtypeStruct((len(snapshot.x),), float)
    try:
        jax.eval_shape(probe, jax.eval_shape(lambda: jax.random.key(0)), shape)
    except (NotImplementedError, AttributeError) as error:
        raise ModelError(
            f"the likelihood cannot be simulated: its distribution has no sample ({type(error).__name__}: {error}); "
            "give it a sample method, data have to be drawn from the model"
        ) from error


def _draw(model: Model, times, x, columns, contexts: tuple[Any, ...], sizes: tuple[int, ...], stations: int, key):
    key_z, key_f, key_y = jax.random.split(key, 3)
    mean, cov = model.prior_of_z()
    root_z = np.linalg.cholesky(cov) if len(mean) else cov
    z = jnp.asarray(mean) + jnp.asarray(root_z) @ jax.random.normal(key_z, mean.shape)
    parameters = model.parameters(z)
    prior = model.kernel.covariance(model.kernel.prepare(jnp.asarray(times), jnp.asarray(x)), parameters)
    root = root_with_jitter(prior, model.kernel.variance(parameters), model.jitter)[0].root
    f = root @ jax.random.normal(key_f, times.shape) + model.mean_function.value(parameters, columns)
    if stations:  # a noise of each
        a = parameters[CONCENTRATION]
        parameters |= {RATIOS: jax.random.gamma(jax.random.fold_in(key, 1), a, (stations,)) / a}
    blocks = jnp.split(f, np.cumsum(sizes)[:-1])
    keys = jax.random.split(key_y, len(sizes))
    data = tuple(
        jnp.asarray(model.likelihood.distribution(block, context, parameters).sample(keys[i]), float)
        for i, (block, context) in enumerate(zip(blocks, contexts))
    )
    return z, tuple(blocks), data
