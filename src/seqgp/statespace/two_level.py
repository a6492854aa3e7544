"""Two levels of modes for networks of many stations: ``F`` on the leading modes only.

The other modes are independent filters of order ``p``. They see a gap filled by its expectation, and the variance of
what fills it is added to their own. An update costs ``r (R + k)² + M k²``, and the filter is exact for the covariance
that it keeps: what is left out are correlations of the modes behind the first ``r``, with each other and with these.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, SiteData, innovation, log_increment, updated
from seqgp.statespace.modes import Modes

LEFT_OUT = 2e-4  # of the squared gains, that the modes behind the leading ones may have
MULTIPLE = 32  # that the number of leading modes is rounded up to: each number is a compilation


class LeadingModes(NamedTuple):
    """How many modes lead, and what the others have of the sum of squared gains."""

    num_modes: int  # r
    left_out: float


def choose_leading_modes(
    variances: Float[ArrayLike, "*S M"], noise: Float[ArrayLike, "*S"], tolerance: float = LEFT_OUT
) -> LeadingModes:
    """The number of leading modes for all particles, from their kernels.

    A gap ties mode ``m`` to others in proportion to its gain ``g_m = d_m / (d_m + noise²)``; the first ``r`` modes have
    all but a share ``tolerance`` of ``Σ g_m²`` for each particle.

    Args:
        variances: ``d_m = h'D h`` of the latent in each mode, predicted for a snapshot; the leading modes first. Before
            any data these are the eigenvalues of space.
        noise: the standard deviation of the noise of each particle.
        tolerance: the share that may be left out.
    """
    d = np.atleast_2d(np.asarray(variances))
    gain = d / (d + np.reshape(np.asarray(noise), (-1, 1)) ** 2)
    total = np.sum(gain**2, axis=1, keepdims=True)
    behind = 1 - np.cumsum(gain**2, axis=1) / total  # after 1, 2, … modes
    needed = int(np.max(np.argmax(behind <= tolerance, axis=1))) + 1
    num_modes = min(-(-needed // MULTIPLE) * MULTIPLE, d.shape[1])
    return LeadingModes(num_modes, float(np.clip(np.max(behind[:, num_modes - 1]), 0.0, 1.0)))


def two_level_update(
    state: LowRankState,
    modes: Modes,
    observe: Float[ArrayLike, " p"],
    noise: Float[ArrayLike, ""],
    data: SiteData,
    scales: Float[ArrayLike, " q"],
    gaps: int,
) -> tuple[LowRankState, Float[Array, ""]]:
    """The state given one more snapshot, with ``gaps`` more rows of ``F``, and the log density of its data.

    The arguments are those of :func:`seqgp.statespace.low_rank.low_rank_update`; ``state.factor`` is on the leading
    modes. Where it is on all modes the two functions agree.
    """
    rank, _, r = state.factor.shape
    found = innovation(state, modes, observe, noise, data, gaps)
    gain, rows, chol = found.gain, found.rows, found.chol
    old = state.factor - gain[None, :, :r] * jnp.einsum("a,ram->rm", observe, state.factor)[:, None, :]
    both = jnp.concatenate([old, gain[None, :, :r] * rows[:, None, :r]])
    factor = solve_lower(chol, both.reshape(both.shape[0], -1)).reshape(both.shape)
    filled = solve_lower(chol[rank:, rank:], rows[:, r:])  # its square is the covariance of the gaps, mode by mode
    leading = jnp.einsum("ri,ram->iam", found.white, factor)
    behind = gain[None, :, r:] * (found.white[rank:].T @ filled)[:, None, :]
    means = gain[None, :, :] * found.values[:, None, :] + jnp.concatenate([leading, behind], axis=2)
    reduced = found.variance.at[r:].add(-jnp.sum(filled**2, axis=0))
    block = state.block - reduced[None, None, :] * gain[:, None, :] * gain[None, :, :]
    after = updated(state, found, means)._replace(block=block, factor=factor)
    return after, log_increment(state, after, found, noise, data, scales)
