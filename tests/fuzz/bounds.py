"""How far an error of the kernel of time can move the posterior of Gaussian data: a bound, by dense algebra.

If each entry of the covariance of ``f`` is off by at most ``e_ij``, then with ``C = K + N``, ``a = C⁻¹ (y − m)`` and
``W = C⁻¹ K_q`` the posterior's mean moves by at most ``(E_q + |W|' E) |a|`` to first order, its covariance by
``E_qq + |W|' E_q + …``, and the log evidence by ``(|a|' E |a| + Σ |C⁻¹| ∘ E) / 2``. Later orders are smaller by powers
of ``‖E |C⁻¹|‖``; their sum is geometric.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tests.oracles import dense
from tests.oracles.dense import WIDE, Rows
from tests.oracles.kernels import latent_covariance
from tests.oracles.quadrature import Unsure


class Shift(NamedTuple):
    """By how much means, covariances (row by row, and between rows) and the log evidence can be off."""

    mean: np.ndarray
    covariance: np.ndarray
    evidence: float

    def part(self, rows: slice) -> Shift:
        """Of some of the rows."""
        return self if self is NONE else self._replace(mean=self.mean[rows], covariance=self.covariance[rows, rows])

    def along(self, vector: np.ndarray) -> tuple[float, float]:
        """Of the mean and the variance of a combination of rows."""
        if self is NONE:
            return 0.0, 0.0
        size = np.abs(vector)
        return float(size @ self.mean), float(size @ self.covariance @ size)


NONE = Shift(np.zeros(0), np.zeros((0, 0)), 0.0)


def shift_of(known: dict, data: Rows, query: Rows, error: float) -> Shift:
    """What correlations in time that are off by ``error`` can do to the answer at the query's rows."""
    if error == 0:
        return NONE
    n, both = len(data.t), dense.joined(data, query)
    at = both.t.astype(WIDE), both.x.astype(WIDE)
    sd = np.sqrt(np.diag(latent_covariance(known["terms"], at, at)))
    off = error * sd[:, None] * sd
    mean, covariance = dense.prior(known, both)
    noise = dense.noise_of(known["likelihood"], data.named).astype(WIDE)
    factor = dense.cholesky(covariance[:n, :n] + np.diag(noise**2))
    half = dense.solve_lower(factor, np.eye(n, dtype=WIDE))
    inverse = np.abs(half.T @ half)
    a = np.abs(half.T @ (half @ (data.y.astype(WIDE) - mean[:n])))
    w = np.abs(half.T @ (half @ covariance[:n, n:]))
    share = float((off[:n, :n] @ inverse).sum(0).max()) if n else 0.0
    if share >= 0.9:
        raise Unsure(f"an error of {error:.1e} in the kernel can change everything")
    later = 1 / (1 - share)
    reach = np.concatenate([w, np.eye(len(query.t), dtype=WIDE)])  # of the data and of the query's own rows
    moved, spread = reach.T @ off[:, :n] @ a, reach.T @ off @ reach
    evidence = (a @ off[:n, :n] @ a + (inverse * off[:n, :n]).sum()) / 2
    return Shift((later * moved).astype(float), (later * spread).astype(float), float(later * evidence))
