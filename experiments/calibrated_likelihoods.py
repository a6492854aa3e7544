"""Every ready-made likelihood with priors for its parameters, and the context that its data need."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import seqgp

N = 8  # data of a snapshot


class Family(NamedTuple):
    """A likelihood to be calibrated."""

    likelihood: seqgp.Likelihood
    context: dict[str, np.ndarray] | None = None


def between(low: float, high: float) -> Any:
    return seqgp.ScaledSigmoid(low, high)


ERRORS = {"se": np.linspace(0.5, 1.5, N)}
AREA = {"area": np.linspace(1.0, 4.0, N)}
CELLS = seqgp.LogGaussianCox([(0.0, 1.0)], N)

FAMILIES = {
    "Gaussian errors": Family(seqgp.Gaussian(between(0.05, 1), "se"), ERRORS),
    "Gaussian squares": Family(seqgp.Gaussian(between(0.05, 1), "se", combine="squares"), ERRORS),
    "Gaussian trend": Family(seqgp.Gaussian(between(0.05, 1), trend=between(-2, 2))),
    "StudentT": Family(seqgp.StudentT(between(0.05, 1), df=4.0)),
    "Bernoulli": Family(seqgp.Bernoulli()),
    "Bernoulli probit": Family(seqgp.Bernoulli(link="probit")),
    "Binomial": Family(seqgp.Binomial(), {"trials": np.arange(3.0, 3.0 + N)}),
    "Poisson": Family(seqgp.Poisson("area"), AREA),
    "LogGaussianCox": Family(CELLS, CELLS.context(duration=20.0)),
    "NegativeBinomial": Family(seqgp.NegativeBinomial(between(0.5, 5), "area"), AREA),
    "LogNormal": Family(seqgp.LogNormal(between(0.05, 1))),
    "Gamma": Family(seqgp.Gamma(between(0.5, 8))),
    "Beta": Family(seqgp.Beta(between(2, 20))),
    "Ordinal": Family(seqgp.Ordinal([-1.0, 0.0, 1.0])),
    "Censored": Family(seqgp.Censored(between(0.05, 1), limit=0.0)),
}
