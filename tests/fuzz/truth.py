"""The oracle's answers to the questions of a case, by the method that suits it, with the errors that it states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tests.oracles import dense, importance, particles, quadrature
from tests.oracles.dense import Rows

from .bounds import NONE, Shift, shift_of
from .values import numbers, wide_slots

MOST = 14  # data of a stream that the particle filter is trusted with
Unsure = quadrature.Unsure


class Answer(NamedTuple):
    """Moments of ``f`` at the rows asked for, the log evidence of the data, and standard errors of the oracle."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float
    mean_error: np.ndarray
    evidence_error: float
    method: str
    misfit: float = 0.0  # how many standard deviations of the prediction the data are out, squared: for rounding
    shift: Shift = NONE  # by which the error of the kernel that seqgp tells can move the answer

    def part(self, rows: slice) -> Answer:
        """The answer to one of several questions asked together."""
        return self._replace(
            mean=self.mean[rows], covariance=self.covariance[rows, rows], mean_error=self.mean_error[rows],
            shift=self.shift.part(rows),
        )  # fmt: skip


def answer(
    model: dict,
    snapshots: list[tuple],
    query: Rows,
    rng: np.random.Generator,
    kernel_error: float = 0.0,
    forget: float = 1.0,
) -> Answer:
    """What is true of ``f`` at the query's rows given the snapshots, for a kernel of time that is off by so much.

    With ``forget`` the parameters are weighted by the density of each snapshot to the power of ``forget`` to its age.
    """
    data = Rows.of(snapshots).observed()
    if model["likelihood"]["family"] == "Gaussian":
        wide = wide_slots(model)
        steps = np.array([t for t, *_ in snapshots])
        found = _inferred(model, data, query, rng, steps, forget) if wide else _dense(numbers(model), data, query)
        return found._replace(shift=shift_of(numbers(model), data, query, kernel_error))
    known = numbers(model)
    none = np.zeros(len(query.t))
    if len(data.t) == 0:
        mean, covariance = (part.astype(float) for part in dense.prior(known, query))
        return Answer(mean, covariance, 0.0, none, 0.0, "prior")
    if len(data.t) <= 3 and _distinct(known, data):
        found = quadrature.posterior(known, data)
        mean, covariance = dense.extended(known, data, query, found.mean, found.covariance)
        return Answer(mean, covariance, found.log_evidence, none, 1e-3, "quadrature")
    if len(data.t) > MOST:
        raise Unsure(f"{len(data.t)} data are too many for the particle filter")
    try:
        found = particles.run(known, data, rng, count=2000)
    except np.linalg.LinAlgError as error:  # Newton's search stalls where data are hundreds of prior sds out
        raise Unsure(f"the particle filter found no mode: {error}") from error
    mean, covariance = dense.extended(known, data, query, found.mean, found.covariance)
    sd = np.sqrt(np.maximum(np.diag(found.covariance), 1e-300))
    if found.evidence_error > 0.05 or (found.mean_error > 0.05 * sd).any():
        raise Unsure(f"the particle filter's evidence has a standard error of {found.evidence_error:.2f}")
    error = np.sqrt(np.maximum(np.diag(covariance), 0)) * float((found.mean_error / sd).max())
    return Answer(mean, covariance, found.log_evidence, error, found.evidence_error, "particles")


def _distinct(known: dict, data: Rows) -> bool:
    """Whether no two data see the same, or nearly the same, ``f``."""
    _, covariance = dense.prior(known, data)
    sd = np.sqrt(np.diag(covariance))
    correlation = (covariance / sd / sd[:, None]).astype(float)
    return bool(np.linalg.eigvalsh(correlation)[0] > 1e-9)


def _dense(known: dict, data: Rows, query: Rows) -> Answer:
    found = dense.posterior(known, data, query)
    noise = dense.noise_of(known["likelihood"], data.named)
    misfit = 2 * max(0.0, -found.log_evidence - np.log(noise).sum()) if len(noise) else 0.0
    return Answer(found.mean, found.covariance, found.log_evidence, np.zeros(len(query.t)), 0.0, "dense", misfit)


def _inferred(
    model: dict, data: Rows, query: Rows, rng: np.random.Generator, steps: np.ndarray, forget: float
) -> Answer:
    """Wide priors: the posterior of the parameters by importance sampling, the latent's as a mixture over it."""
    nothing, times = query.kept(np.zeros(len(query.t), bool)), np.unique(data.t)
    until = [data] if forget == 1 else [data.kept(data.t <= t) for t in times]
    share = np.ones(1) if forget == 1 else forget ** np.array([(steps > t).sum() for t in times], float)

    def log_evidence_at(z):
        try:
            known = numbers(model, z)
            totals = [dense.posterior(known, some, nothing, np.float64).log_evidence for some in until]
        except np.linalg.LinAlgError:
            return -np.inf
        return float(np.diff(totals, prepend=0.0) @ share)

    found = importance.posterior(len(wide_slots(model)), log_evidence_at, rng, count=1500)
    if found.effective < 200:
        raise Unsure(f"only {found.effective:.0f} of the oracle's draws of the parameters are effective")
    chosen = rng.choice(len(found.z), 300, p=found.weights)
    each = [dense.posterior(numbers(model, found.z[i]), data, query) for i in chosen]
    means = np.array([one.mean for one in each])
    covariance = np.cov(means.T).reshape(len(query.t), -1) + np.mean([one.covariance for one in each], 0)
    error = means.std(0) / np.sqrt(200)
    return Answer(means.mean(0), covariance, found.log_evidence, error, found.error, "importance")
