"""The latent function at many points, point by point: moments in batches, and independent draws from them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Context
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.runtime.memory import BYTES_PER_FLOAT, check_fits
from seqgp.samplers.base import State

BATCH = 1024  # points at once
COPIES = 6  # arrays of draws and inputs: moments, normal numbers, draws of both


class Marginals(NamedTuple):
    """What each posterior draw says about ``f`` at each input, apart from the others."""

    mean: Float[np.ndarray, "draws n"]
    variance: Float[np.ndarray, "draws n"]

    def draws(self, key: Key[Array, ""], model: Model) -> Float[Array, "draws n"]:
        """One draw of ``f`` at each input for each posterior draw, independent between inputs."""
        white = np.asarray(jax.random.normal(key, self.mean.shape))
        return jax.device_put(self.mean + np.sqrt(self.variance) * white)

    def log_marginals(self, model: Model, y: np.ndarray) -> np.ndarray:
        """Refused: a joint density needs the covariance between the inputs."""
        raise DataError(
            "scores: the prediction was made with joint=False, which has no joint density; use "
            "log_score(y, pointwise=True), or predict with joint=True"
        )


def marginal_moments(
    model: Model, state: State, x: Float[np.ndarray, "n D"], t: float, context: Context = None, batch: int = BATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of ``f`` at each input, ``(draws, n)``, for each posterior draw.

    Args:
        model: the model.
        state: the draws, of an online sampler.
        x: the inputs.
        t: the time.
        context: the covariates there.
        batch: inputs at once; the last batch is padded.
    """
    state, n, batch = state.ready(model), len(x), min(batch, len(x))
    needed = COPIES * BYTES_PER_FLOAT * len(state.z) * n
    check_fits(
        needed, f"predict: {len(state.z)} draws of f and y at {n} inputs", "take state.thinned(…), or fewer inputs"
    )
    found = []
    for start in range(0, n, batch):
        index = np.minimum(np.arange(start, start + batch), n - 1)

        def of_batch(leaf, index=index):
            leaf = np.asarray(leaf)
            return leaf[index] if leaf.ndim and len(leaf) == n else leaf

        predictive = state.predictive(model, x[index], t, jax.tree.map(of_batch, context))
        moments = getattr(predictive, "moments", None)
        if moments is None:
            raise SamplerError(
                f"predict: joint=False needs the state of an OnlineSampler, got {type(state).__name__}; predict fewer "
                "inputs at a time with joint=True"
            )
        found.append([each[:, : n - start] for each in moments(model)])
    mean, variance = (np.concatenate(each, axis=1) for each in zip(*found))
    return mean, variance
