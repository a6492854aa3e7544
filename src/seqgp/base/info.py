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
    """Whether the weights of a step are exact in the limit of particles; true where they are."""

    corrected: bool  # whether nothing is approximated at this step
    why: str  # what holds, in words
    step: int = 0  # at which all particles were corrected last; 0 for never
    paths: int = 0  # of each particle, in that correction
    noise: float = 0.0  # sd of the log evidence of a particle in it, estimated

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

    In the units of ``Snapshot.y``. The predictions are mixtures over the particles.
    """

    mean: Float[np.ndarray, " N"]
    sd: Float[np.ndarray, " N"]
    z: Float[np.ndarray, " N"]  # the datum as a standard normal number: the normal quantile of pit
    pit: Float[np.ndarray, " N"]  # the probability of a smaller value
    log_score: Float[np.ndarray, " N"]  # the log predictive density of the datum
    ess: Float[np.ndarray, " N"]  # the effective number of particles without the datum


class StationInfo(NamedTuple):
    """What the monitor of stations made of a snapshot of Gaussian data."""

    z: Float[np.ndarray, " N"]  # scores of the rows: as in loo, without data that stand out
    factors: Float[np.ndarray, " N"]  # of the noise with which each was used; infinite where it was excluded
    flags: tuple[StationFlag, ...]  # stations that are flagged, and wrong readings of this snapshot
    robust: str  # what is done with flagged values: flag, exclude or downweight


class OnlineInfo(NamedTuple):
    """What a step of the online sampler reports."""

    t: float
    step: int
    seconds: float
    compile_seconds: float
    missing: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    ess: float  # the effective number of particles
    log_evidence: float  # log p(y_1:t)
    log_evidence_se: float
    rejuvenations: tuple[Any, ...] = ()  # of the particles in this step, with their cost
    scores: dict[str, float] = {}  # noqa: RUF012
    extras: dict[str, Any] = {}  # noqa: RUF012
    exact: Exactness | None = None  # not known of runs of earlier versions
    loo: LeaveOneOut | None = None  # of Gaussian data
    stations: StationInfo | None = None  # of Gaussian data
    forecast: ForecastValues | None = None  # of a snapshot that was forecast before it was used

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
    """What a step of a sampler with Markov chains reports."""

    t: float
    step: int
    seconds: float
    compile_seconds: float
    missing: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    updates: dict[str, UpdateInfo]
    rhat: dict[str, float]
    ess: dict[str, float]  # of each parameter, and of the latent function
    ess_tail: dict[str, float]
    chains: int
    log_likelihood: float
    scores: dict[str, float] = {}  # noqa: RUF012
    extras: dict[str, Any] = {}  # noqa: RUF012
    forecast: ForecastValues | None = None  # of a snapshot that was forecast before it was used

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
