"""Draws against an answer of the oracle: equal within a stated Monte Carlo error, or in which way they differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .truth import Answer

Z = 6.0  # standard errors: about 2e-9 of comparisons are beyond by chance
LEAST = 1e-7  # of the largest standard deviation, below which a direction is rounding


class Tolerance(NamedTuple):
    """What is allowed beside Monte Carlo errors: in standard deviations, relative, and in nats."""

    mean: float
    sd: float
    evidence: float


class Difference(NamedTuple):
    """One way in which an answer is wrong."""

    question: str
    what: str
    got: float
    expected: float
    allowed: float

    def __str__(self) -> str:
        return (
            f"{self.question}: {self.what} is {self.got:.6g}, the oracle says {self.expected:.6g} ± {self.allowed:.2g}"
        )


EP = Tolerance(0.1, 0.1, 0.05)  # what expectation propagation may be off by: over all data, or of one snapshot
LOW_RANK = 0.03  # the spread of log evidences that a rank may have; its shift may be three times as large
PATHS = Tolerance(0.02, 0.02, 0.02)  # corrected by paths: nothing but the oracle's own rounding


def tolerance(count: int, ratio: float, answer: Answer, low_rank: bool = False) -> Tolerance:
    """What may differ for Gaussian data without Monte Carlo error.

    Args:
        count: how many data there are.
        ratio: the latent's standard deviation over the noise: squares of it eat digits of covariances.
        answer: the oracle's.
        low_rank: whether correlations between modes are compressed, to the accuracy that seqgp holds its rank to.
    """
    rounding = 1e-14 * ratio**2
    evidence = 1e-3 + 1e-6 * abs(answer.log_evidence) + rounding * (count + answer.misfit)
    near = min(0.02 + np.sqrt(rounding * (1 + answer.misfit)), 10.0)
    if low_rank:
        return Tolerance(near + LOW_RANK, min(0.02 + rounding, 0.5) + LOW_RANK, evidence + 3 * LOW_RANK)
    return Tolerance(near, min(0.02 + rounding, 0.5), evidence)


def distinct(draws: np.ndarray) -> float:
    """The effective number of draws of which some are copies of others."""
    _, counts = np.unique(np.asarray(draws), axis=0, return_counts=True)
    return float(counts.sum() ** 2 / (counts**2).sum())


def check_evidence(question: str, got: float, error: float, answer: Answer, allowed: float) -> list[Difference]:
    """The log evidence: the sampler's standard error and the oracle's count."""
    most = allowed + answer.shift.evidence + Z * float(np.hypot(error, answer.evidence_error))
    if abs(got - answer.log_evidence) <= most:  # false for NaN
        return []
    return [Difference(question, "log evidence", got, answer.log_evidence, most)]


def check_draws(
    question: str, draws: np.ndarray, answer: Answer, effective: float, allowed: Tolerance, joint: bool = True
) -> list[Difference]:
    """Means and standard deviations at each row, and where they are joint along the principal directions of all."""
    draws = np.asarray(draws, float)
    if not np.isfinite(draws).all():
        return [Difference(question, "share of finite draws", float(np.isfinite(draws).mean()), 1.0, 0.0)]
    n = min(len(draws), effective)
    sd = np.sqrt(np.maximum(np.diag(answer.covariance), 0.0))
    floor = LEAST * max(sd.max(), 1e-300) + 1e-12 * np.abs(answer.mean).max()
    found = []
    for i in range(len(sd)):
        found += _moments(
            f"{question}, row {i}", draws[:, i], answer.mean[i], sd[i], n, allowed, answer.mean_error[i], floor,
            answer.shift.along(np.eye(len(sd))[i]),
        )  # fmt: skip
    if found or len(sd) == 1 or not joint:
        return found[:3]
    values, vectors = np.linalg.eigh(answer.covariance)
    for value, vector in zip(values, vectors.T):
        along, middle = draws @ vector, float(answer.mean @ vector)
        error = float(np.abs(vector) @ answer.mean_error)
        where, least = f"{question}, along {np.round(vector, 3).tolist()}", 1e-5 * sd.max() + floor
        shift = answer.shift.along(vector)
        found += _moments(where, along, middle, np.sqrt(max(value, 0.0)), n, allowed, error, least, shift)
    return found[:3]


def _moments(question, draws, mean, sd, n, allowed: Tolerance, mean_error, floor, shift) -> list[Difference]:
    got, spread = float(draws.mean()), float(draws.std())
    most = Z * np.hypot(max(sd, spread) / np.sqrt(n), mean_error) + allowed.mean * sd + floor + shift[0]
    if abs(got - mean) > most:
        return [Difference(question, "mean", got, mean, most)]
    centred = draws - got
    fourth = float(((centred / max(spread, 1e-300)) ** 4).mean())
    most = sd * (allowed.sd + Z * np.sqrt(max(fourth - 1, 2.0) / 4 / n) + 2 * mean_error / max(sd, 1e-300)) + floor
    most += np.sqrt(sd**2 + shift[1]) - sd
    if abs(spread - sd) > most:
        return [Difference(question, "sd", spread, sd, most)]
    return []
