"""Info: what a person wants to know of a step."""

from __future__ import annotations

from typing import Any, NamedTuple


class UpdateInfo(NamedTuple):
    """What one kind of update cost in a step, over all draws."""

    updates: int
    evaluations: int
    capped: int
    not_positive_definite: int
    jitter_raised: int
    spread: float = 0.0  # variance of the log density over independent updates: 0 for a perfect surrogate

    @property
    def evaluations_per_update(self) -> float:
        """Likelihood evaluations per update: 1 is the least."""
        return self.evaluations / max(self.updates, 1)


class Info(NamedTuple):
    """What happened in a step."""

    t: float
    step: int
    seconds: float
    compile_seconds: float
    updates: dict[str, UpdateInfo]
    rhat: dict[str, float]
    ess: dict[str, float]
    ess_tail: dict[str, float]
    chains: int
    missing: int
    settings: dict[str, str]
    log_likelihood: float
    warnings: tuple[str, ...]
    scores: dict[str, float] = {}  # noqa: RUF012
    extras: dict[str, Any] = {}  # noqa: RUF012
    log_evidence: float | None = None  # log p(y_1:t), where the sampler has it
    log_evidence_se: float | None = None
    effective: float | None = None  # the effective number of particles
    renewals: tuple[Any, ...] = ()  # of particles in this step, with their cost

    @property
    def min_ess(self) -> float:
        """The smallest effective sample size over all parameters and the latent."""
        return min(self.ess.values(), default=float("nan"))

    @property
    def max_rhat(self) -> float:
        """The largest R-hat over all parameters and the latent."""
        return max(self.rhat.values(), default=float("nan"))

    @property
    def health(self) -> str:
        """In a few words, how far the draws can be trusted."""
        if self.effective is not None:
            error = "" if self.log_evidence_se is None else f" ± {self.log_evidence_se:.2f}"
            return f"{self.effective:.0f} effective particles, log evidence {self.log_evidence:.2f}{error}"
        return f"least ESS {self.min_ess:.0f}, largest R-hat {self.max_rhat:.3f}"


def particle_figure(info: Info, name: str) -> float | None:
    """``log_evidence``, ``log_evidence_se``, ``effective`` or ``renewals`` of an info, where its sampler has it."""
    if info.effective is None:
        return None
    value = getattr(info, name)
    return float(len(value) if isinstance(value, tuple) else value)
