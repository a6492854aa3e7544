"""What a person wants to know of a step: one info for the online sampler, one for samplers made of chains."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from seqgp.base.flags import StationFlag


class UpdateInfo(NamedTuple):
    """What one kind of update cost in a step, over all draws."""

    updates: int
    evaluations: int
    capped: int
    not_positive_definite: int
    jitter_raised: int
    spread: float = 0.0  # variance of the log density over independent updates: 0 for a perfect approximation

    @property
    def evaluations_per_update(self) -> float:
        """Likelihood evaluations per update: 1 is the least."""
        return self.evaluations / max(self.updates, 1)


class ForecastValues(NamedTuple):
    """How each observed value of a snapshot was forecast, in the units of the data."""

    pit: Float[np.ndarray, " n"]  # the probability integral transform: uniform where forecasts are calibrated
    crps: Float[np.ndarray, " n"]


class Exactness(NamedTuple):
    """Whether the weights of a step are exact in the limit of particles; true where they are.

    Attributes:
        corrected: whether nothing is approximated at this step.
        why: what holds, in words.
        step: the step of the last correction of all particles; 0 for never.
        paths: the number of paths for each particle in that correction.
        noise: the estimated standard deviation of a particle's log evidence in it.
    """

    corrected: bool
    why: str
    step: int = 0
    paths: int = 0
    noise: float = 0.0

    def __bool__(self) -> bool:
        return self.corrected

    @property
    def remark(self) -> str:
        """In a few words, for data that are not Gaussian; empty where the filters approximate nothing."""
        if not self.corrected:
            return f"approximate ({self.why})"
        noise = f"each log evidence ± {self.noise:.2f}"
        return f"exact ({self.why}: {self.paths} for each particle, {noise})" if self.paths else ""


class LeaveOneOut(NamedTuple):
    """Each datum of a snapshot predicted from all others of it and from the past; NaN where it is missing.

    In the units of ``Snapshot.y``, one number for each row. The predictions are mixtures over the particles.

    Attributes:
        mean: the predictive mean.
        sd: the predictive standard deviation.
        z: the datum as a standard normal score: the normal quantile of ``pit``.
        pit: the predictive probability of a smaller value.
        log_score: the log predictive density of the datum.
        ess: the effective number of particles without the datum.
    """

    mean: Float[np.ndarray, " N"]
    sd: Float[np.ndarray, " N"]
    z: Float[np.ndarray, " N"]
    pit: Float[np.ndarray, " N"]
    log_score: Float[np.ndarray, " N"]
    ess: Float[np.ndarray, " N"]


class StationInfo(NamedTuple):
    """What the monitor of stations found in a snapshot of Gaussian data.

    Attributes:
        z: a score for each row, as in ``loo``, computed without values that stand out.
        factors: the factor of the noise with which each row was used; infinite where it was excluded.
        flags: the stations that are flagged, and the wrong readings of this snapshot.
        robust: what is done with flagged values: ``flag``, ``exclude`` or ``downweight``.
    """

    z: Float[np.ndarray, " N"]
    factors: Float[np.ndarray, " N"]
    flags: tuple[StationFlag, ...]
    robust: str


class OnlineInfo(NamedTuple):
    """What a step of ``OnlineSampler`` reports.

    Attributes:
        t: the time of the snapshot.
        step: its number, from 1.
        seconds: the time that the step took, without compilation.
        compile_seconds: the time that compilation took.
        missing: the number of missing values in the snapshot.
        settings: what the sampler chose, by name: the representation, the filter and the like.
        warnings: what you should know; each is ``kind (parameters): figures; remedy``.
        ess: the effective number of particles.
        log_evidence: the log evidence ``log p(y_1, …, y_t)`` of the model.
        log_evidence_se: its Monte Carlo standard error.
        rejuvenations: the rejuvenations of the particles in this step, with their cost.
        scores: the scores of the forecast that ``run`` made before the step: log score, CRPS, coverage.
        extras: figures of some models, by name, such as ``kernel_error`` and ``moved``.
        exact: whether the weights are exact in the limit of many particles, and why; None in runs of earlier
            versions.
        loo: for Gaussian data, each value predicted from all others and from the past.
        stations: for Gaussian data, what the monitor of stations found.
        forecast: how each value was forecast before the step (in runs).
    """

    t: float
    step: int
    seconds: float
    compile_seconds: float
    missing: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    ess: float
    log_evidence: float
    log_evidence_se: float
    rejuvenations: tuple[Any, ...] = ()
    scores: dict[str, float] = {}  # noqa: RUF012
    extras: dict[str, Any] = {}  # noqa: RUF012
    exact: Exactness | None = None
    loo: LeaveOneOut | None = None
    stations: StationInfo | None = None
    forecast: ForecastValues | None = None

    @property
    def min_ess(self) -> float:
        """The effective number of particles."""
        return self.ess

    @property
    def health(self) -> str:
        """In a few words, how far the draws can be trusted."""
        remark = "" if self.exact is None else self.exact.remark
        said = f"ESS {self.ess:.0f} particles, log evidence {self.log_evidence:.2f} ± {self.log_evidence_se:.2f}"
        return f"{said}; {remark}" if remark else said


class ChainInfo(NamedTuple):
    """What a step of ``SequentialSampler`` reports, or ``FullSampler`` of all its draws.

    Attributes:
        t: the time of the snapshot.
        step: its number, from 1.
        seconds: the time that the step took, without compilation.
        compile_seconds: the time that compilation took.
        missing: the number of missing values in the snapshot.
        settings: what the sampler chose, by name: the representation, the filter and the like.
        warnings: what you should know; each is ``kind (parameters): figures; remedy``.
        updates: the cost of each kind of MCMC update, by name.
        rhat: R-hat of each parameter (on the Gaussian scale) and, under ``latent``, the worst of the latent
            function.
        ess: the bulk effective sample sizes, by the same names.
        ess_tail: the effective sample sizes of the tails, by the same names.
        chains: the number of chains.
        log_likelihood: the mean log likelihood over the draws.
        scores: the scores of the forecast that ``run`` made before the step: log score, CRPS, coverage.
        extras: figures of some models, by name, such as ``kernel_error`` and ``moved``.
        forecast: how each value was forecast before the step (in runs).
    """

    t: float
    step: int
    seconds: float
    compile_seconds: float
    missing: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    updates: dict[str, UpdateInfo]
    rhat: dict[str, float]
    ess: dict[str, float]
    ess_tail: dict[str, float]
    chains: int
    log_likelihood: float
    scores: dict[str, float] = {}  # noqa: RUF012
    extras: dict[str, Any] = {}  # noqa: RUF012
    forecast: ForecastValues | None = None

    @property
    def min_ess(self) -> float:
        """The smallest effective sample size over all parameters and the latent function."""
        return min(self.ess.values(), default=float("nan"))

    @property
    def max_rhat(self) -> float:
        """The largest R-hat over all parameters and the latent function."""
        return max(self.rhat.values(), default=float("nan"))

    @property
    def health(self) -> str:
        """In a few words, how far the draws can be trusted."""
        return f"least ESS {self.min_ess:.0f}, largest R-hat {self.max_rhat:.3f}"


Info: TypeAlias = OnlineInfo | ChainInfo
"""What a step of any sampler reports: both have ``health``, ``warnings``, ``settings``, ``scores`` and ``extras``."""


def info_of_version_0_2(values: dict[str, Any]) -> Info:
    """The one ``Info`` that version 0.2 and earlier stored for all samplers, as that of its sampler."""
    shared = {
        name: values[name] for name in values.keys() & (set(OnlineInfo._fields) & set(ChainInfo._fields) - {"ess"})
    }
    if values.get("effective") is None:
        own = ("updates", "rhat", "ess", "ess_tail", "chains", "log_likelihood")
        return ChainInfo(**shared, **{name: values[name] for name in own})
    return OnlineInfo(
        **shared,
        ess=values["effective"],
        log_evidence=values["log_evidence"],
        log_evidence_se=values["log_evidence_se"],
        rejuvenations=values.get("renewals", ()),
    )
