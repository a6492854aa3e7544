"""What a person wants to know of a step of the online sampler."""

from __future__ import annotations

import numpy as np

from seqgp.online.arrival import Ratios
from seqgp.online.state import OnlineState
from seqgp.online.underway import Underway
from seqgp.samplers.info import Info

TOLD_ERROR = 1e-3  # of a time correlation, beyond which it is warned about
FEW = 0.1  # of the particles effective and different, below which it is warned about
LEAST_SHARE = 0.15  # of draws from a surrogate that are effective, below which it is warned about


def online_info(state: OnlineState, step: Underway, lost: int, ratios: Ratios | None, seconds: float) -> Info:
    """Of a step that has ended.

    Args:
        state: after it.
        step: the step.
        lost: how many particles had no density.
        ratios: of likelihood to surrogate, where there is one.
        seconds: that it took in all.
    """
    error, layout, snapshot = step.system.error, step.history.layout, step.history.snapshots[-1]
    effective = _effective(state)
    extras = {"kernel_error": error, "filter_steps": step.spent.filter_steps, "lost": lost}
    if ratios is not None:
        extras["surrogate_effective"] = float(np.median(ratios.effective()))
    few_knots: list[str] = []
    if layout.knots is not None:
        centre = np.asarray(state.z).mean(axis=0)
        accuracy, few_knots = layout.knots.report(step.system.model, centre, snapshot.x)
        extras |= accuracy
    return Info(
        t=state.t,
        step=state.step,
        seconds=seconds - step.spent.compile_seconds,
        compile_seconds=step.spent.compile_seconds,
        updates={},
        rhat={},
        ess={},
        ess_tail={},
        chains=1,
        missing=int(np.isnan(snapshot.y).sum()),
        settings={"sampler": "online", "latent": layout.name, "why": layout.why, "filter": step.history.filter.name},
        log_likelihood=float("nan"),
        warnings=(*_warnings(state, effective, extras, snapshot.y), *few_knots),
        extras=extras,
        log_evidence=state.log_evidence,
        log_evidence_se=float(np.sqrt(state.cloud.total_variance())),
        effective=effective,
        renewals=step.renewals,
    )


def _effective(state: OnlineState) -> float:
    """Without parameters in the cloud all particles are one, and exact."""
    return state.cloud.distinct() if state.cloud.z.shape[1] else state.cloud.effective()


def _warnings(state: OnlineState, effective: float, extras: dict[str, float], y: np.ndarray) -> tuple[str, ...]:
    found, share = [], extras.get("surrogate_effective", 1.0)
    if extras["kernel_error"] > TOLD_ERROR:
        found.append(
            f"the time kernel's state of order {state.settings['order']} is off by up to "
            f"{extras['kernel_error']:.1e} of the correlation: raise order="
        )
    if np.isnan(y).all():
        found.append("all of y is missing: the draws are a forecast")
    if extras["lost"]:
        particles = len(state.cloud.z)
        found.append(f"{extras['lost']} of {particles} particles were lost: the likelihood is NaN or -inf for them")
    size, inferred = state.cloud.z.shape
    if inferred and effective < max(FEW * size, inferred + 1):
        found.append(
            f"only {effective:.0f} of {size} particles are effective: the data lie far from what the priors expect "
            "(units? an outlier?), or the parameters are too many for the cloud; widen the priors, or raise particles="
        )
    if share < LEAST_SHARE:
        found.append(
            f"the surrogate of the likelihood is poor: {share:.0%} of draws from it are effective; compare with "
            "seqgp.SequentialSampler"
        )
    return tuple(found)
