"""Truth to compare with: samplers of the exact posterior, closed forms and quadrature."""

from seqgp.reference.collapsed import CollapsedSampler
from seqgp.reference.kalman import Filtered, kalman_filter, kalman_smoother
from seqgp.reference.marginal import Moments, gaussian_posterior, predictive_log_score
from seqgp.reference.online import OnlinePosterior, online_posterior
from seqgp.reference.quadrature import Quadrature, quadrature, quadrature_moments
from seqgp.reference.recursion import sequential_target
from seqgp.samplers.full.sampler import FullSampler
from seqgp.samplers.full.stacked import FullState

__all__ = [
    "CollapsedSampler",
    "Filtered",
    "FullSampler",
    "FullState",
    "Moments",
    "OnlinePosterior",
    "Quadrature",
    "gaussian_posterior",
    "kalman_filter",
    "kalman_smoother",
    "online_posterior",
    "predictive_log_score",
    "quadrature",
    "quadrature_moments",
    "sequential_target",
]
