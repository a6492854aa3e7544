"""Weights of forecasters by stacking: the mixture with the highest mean log score."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

TOLERANCE = 1e-6  # of the mean log score
STEPS = 100_000


def stacking_weights(log_scores: Float[np.ndarray, "T K"]) -> Float[np.ndarray, " K"]:
    """``argmax_w mean_t log Σ_k w_k exp(log_scores[t, k])`` over the simplex (Yao, Vehtari, Simpson and Gelman 2018).

    EM for the weights of a mixture whose components are known. With ``g_k = mean_t p_tk / Σ_j w_j p_tj`` the maximum is
    at most ``log max_k g_k`` above the present mean (the objective is concave), which ends the iteration.
    """
    scores = np.asarray(log_scores, float)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = np.full(p.shape[1], 1.0 / p.shape[1])
    for _ in range(STEPS):
        gain = np.mean(p / (p @ weights)[:, None], axis=0)
        if np.log(gain.max()) < TOLERANCE:
            break
        weights = weights * gain
    return weights / weights.sum()
