"""Truth to compare with: samplers of the exact posterior, closed forms and quadrature."""

from seqgp.reference.collapsed import CollapsedSampler
from seqgp.reference.full import FullSampler
from seqgp.reference.kalman import Filtered, kalman_filter, kalman_smoother
from seqgp.reference.marginal import Moments, gaussian_posterior
from seqgp.reference.recursion import ScalarTarget, scalar_target, sequential_target
from seqgp.reference.stacked import FullState

__all__ = [
    "CollapsedSampler",
    "Filtered",
    "FullSampler",
    "FullState",
    "Moments",
    "ScalarTarget",
    "gaussian_posterior",
    "kalman_filter",
    "kalman_smoother",
    "scalar_target",
    "sequential_target",
]
