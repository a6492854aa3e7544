"""Predictions at past times given all data: draws of the latent function and of new data, at any inputs."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Context, as_context
from seqgp.base.transforms import Transform
from seqgp.evaluate.predict import draw_data
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.samplers.base import State
from seqgp.samplers.online.sampler import OnlineSampler
from seqgp.samplers.online.smooth import smooth
from seqgp.samplers.online.state import OnlineState


class PastPrediction(NamedTuple):
    """Draws at a past time, given all data of the state."""

    f: Float[Array, "draws n"]
    y: Float[Array, "draws n"]
    t: float


def predict_past(
    key: Key[Array, ""],
    model: Model,
    state: State,
    x: np.ndarray,
    t: float,
    context: Context = None,
    transform: Transform | None = None,
) -> PastPrediction:
    """Draw the latent function and new data at a past time, by smoothing.

    Args:
        key: a random key.
        model: the model that the state was sampled with.
        state: the last state of an online sampler.
        x: the inputs, ``(n, D)``.
        t: a time from the first snapshot to the last one.
        context: what mean and likelihood need besides, at ``x``.
        transform: that of the data; draws are in the units that they had before.
    """
    if not isinstance(state, OnlineState):
        raise DataError(f"t = {t:.12g} is before the last time, {state.t:.12g}, and only OnlineSampler keeps the past")
    if model.likelihood.pointwise:
        model.likelihood.check_context(np.ones(len(x), bool), context)
    key_path, key_data = jax.random.split(key)
    sampler = OnlineSampler(
        model, len(state.particles.z), latent=state.settings["latent"], order=state.settings["order"]
    )
    latent = smooth(key_path, sampler, state, [t], x=x, draws=state.draws, context=context).latent[0]
    parameters = compiled(_parameters, model, np.asarray(state.z))[0]()
    own = model.likelihood.context_at(t, as_context(context))
    y = draw_data(key_data, model, jnp.asarray(latent), own, parameters)
    if transform is not None:
        latent, y = (jnp.asarray(transform.inverse(jnp.asarray(one))) for one in (latent, y))
    return PastPrediction(jnp.asarray(latent), y, t)


def _parameters(model: Model, z):
    return jax.vmap(model.parameters)(z)
