"""particles: IBIS, waste-free as by default, on a Kalman likelihood in NumPy over all particles at once.

The filters of the particles go on from the last time where the parameters did not change; moved particles are filtered
from the first time on.
"""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

import time

import numpy as np
import particles
from particles import distributions as dists
from particles import smc_samplers as ssp
from problem import NAMES, PRIOR, load, space_covariance, summary, tell

CHAINS, LENGTH = 32, 8  # 256 particles


class Kalman:
    """The filters of many parameter values: means ``(S, N)`` and covariances ``(S, N, N)`` of the next time."""

    def __init__(self, x: np.ndarray, theta: np.ndarray):
        self.theta, self.K = theta, space_covariance(x, theta)
        self.decay = np.exp(-1 / theta[:, 0])
        self.mean, self.cov, self.t = np.zeros(self.K.shape[:2]), self.K, 0

    def advance(self, y: np.ndarray) -> np.ndarray:
        """The log density of the next data given those before; ``(S,)``."""
        innovation = y - self.mean
        S = self.cov + self.theta[:, 3, None, None] ** 2 * np.eye(len(y))
        solved = np.linalg.solve(S, np.concatenate([self.cov, innovation[..., None]], axis=2))
        gain, residual = np.swapaxes(solved[..., :-1], 1, 2), solved[..., -1]
        mean = self.mean + np.einsum("snm,sm->sn", gain, innovation)
        cov = self.cov - gain @ self.cov
        a = self.decay[:, None]
        self.mean, self.cov = a * mean, a[..., None] ** 2 * cov + (1 - a[..., None] ** 2) * self.K
        self.t += 1
        quadratic = np.einsum("sn,sn->s", innovation, residual)
        return -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * S)[1])


class Stations(ssp.StaticModel):
    """The model; ``theta`` holds logarithms."""

    x: np.ndarray
    last: Kalman | None = None

    def logpyt(self, theta, t):
        values = np.exp(np.stack([theta[name] for name in NAMES], axis=1))
        filters = self.last
        if filters is None or filters.t != t or not np.array_equal(filters.theta, values):
            filters = Kalman(self.x, values)
            for s in range(t):
                filters.advance(self.data[s])
        self.last = filters
        return filters.advance(self.data[t])

    def loglik(self, theta, t=None):
        filters = Kalman(self.x, np.exp(np.stack([theta[name] for name in NAMES], axis=1)))
        return sum(filters.advance(y) for y in self.data[: (self.T if t is None else t + 1)]) + np.zeros(len(theta))


def main() -> None:
    """The posterior after each snapshot."""
    stream = load()
    np.random.seed(0)  # noqa: NPY002, which is what particles draws from
    prior = dists.StructDist({name: dists.Normal(loc=m, scale=s) for name, (m, s) in zip(NAMES, PRIOR)})
    model = Stations(data=stream.y, prior=prior)
    model.x = stream.x
    start = time.perf_counter()
    sampler = particles.SMC(fk=ssp.IBIS(model=model, len_chain=LENGTH), N=CHAINS)
    sampler.run()
    seconds = time.perf_counter() - start
    theta = np.exp(np.stack([sampler.X.theta[name] for name in NAMES], axis=1))
    tell(seconds=seconds, log_evidence=sampler.logLt, ess=sampler.wgts.ESS, **summary(theta, sampler.W))


if __name__ == "__main__":
    main()
