"""The sampler of a sequence of days: the surface is carried on, the noise of the quotes is each day's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

import seqgp

ADAPT = 80  # draws of each chain in which a day's updates find their approximation
SWEEPS = 4  # per draw: quotes are precise and prices nonlinear, so that one would leave draws too dependent


class DailySampler(seqgp.SequentialSampler):
    """`seqgp.SequentialSampler` for quotes: before each step the noise is drawn from its prior again.

    Some days are quoted better than others. `seqgp.run(DailySampler(…), …)` and `LocalVolFit` are the same algorithm.

    Args:
        model: of `LocalVolatility`.
        draws: how many draws to keep of each day.
        **settings: of `seqgp.SequentialSampler`.
    """

    def __init__(self, model: seqgp.Model, draws: int = 1000, **settings: Any):
        defaults: dict[str, Any] = {"updates": seqgp.Informed(adapt=ADAPT, sweeps=SWEEPS), "carry": "joint"}
        super().__init__(model, draws=draws, **(defaults | settings))
        self.noise = "each day's own"  # a stored run remembers it: another sampler does not continue it

    def step(
        self, key: Key[Array, ""], state: seqgp.SequentialState, snapshot: seqgp.Snapshot, progress: Any = None
    ) -> tuple[seqgp.SequentialState, seqgp.ChainInfo]:
        """The draws after a further day."""
        key_noise, key_step = jax.random.split(key)
        if isinstance(state, seqgp.SequentialState):  # what else it may be, the step itself says
            state = forget_noise(key_noise, self.model, state)
        return super().step(key_step, state, snapshot, progress)


def forget_noise(key: Key[Array, ""], model: seqgp.Model, state: seqgp.SequentialState) -> seqgp.SequentialState:
    """The state with the noise drawn from its prior; the stickiness is the market's, and is carried on."""
    index = np.array([i for i, name in enumerate(model.names) if name == "noise"], dtype=int)
    mean, covariance = model.prior_of_z()
    fresh = mean[index] + np.sqrt(np.diag(covariance)[index]) * jax.random.normal(key, (state.draws, len(index)))
    z = jnp.asarray(state.z).at[:, index].set(fresh)
    return state._replace(z=z, parameters=model.natural(z))
