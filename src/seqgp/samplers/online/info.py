"""What a person wants to know of a step of the online sampler."""

from __future__ import annotations

import numpy as np

from seqgp.base.info import Exactness, OnlineInfo
from seqgp.samplers.online.black_box import worst_table_error
from seqgp.samplers.online.rank import last_compressed, rank_extras, rank_warnings
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.online.step import OnlineStep
from seqgp.samplers.online.update import Ratios
from seqgp.statespace.fourier_box import FourierBox
from seqgp.statespace.model import StateSpaceModel

MAX_KERNEL_ERROR = 1e-3  # of a time correlation, beyond which it is warned about
MAX_OUTSIDE = 0.01  # of the draws of a parameter beyond the values that a state is fitted for
MIN_ESS_FRACTION = 0.1  # of the particles effective and different, below which it is warned about
MAX_TABLE_ERROR = 0.05  # of the table of a black box, in log density, beyond which it is warned about
MAX_NOISE = 1.0  # of the log evidence of a particle, beyond which it is warned about
MIN_LINEARISED_ESS_FRACTION = 0.15  # of draws from a linearisation that are effective, below which it is warned about
MANY_PARAMETERS = 50  # beyond, a few hundred particles say roughly how wide the posterior is


def online_info(
    state: OnlineState, step: OnlineStep, lost: int, ratios: Ratios | None, seconds: float, approximate: str
) -> OnlineInfo:
    """Of a step that has ended.

    Args:
        state: after it.
        step: the step.
        lost: how many particles had no density.
        ratios: of likelihood to its linearisation, where there is one.
        seconds: that it took in all.
        approximate: why weights are not exact whatever is done; empty where they are or can be.
    """
    exact = _exactness(state, step, approximate)
    error, layout, snapshot = step.ssm.error, step.history.layout, step.history.snapshots[-1]
    ess = _ess(state)
    extras = {"kernel_error": error, "filter_steps": step.spent.filter_steps, "lost": lost}
    extras |= rank_extras(step.history)
    if ratios is not None:
        extras["linearisation_ess_fraction"] = float(np.median(ratios.ess_fraction()))
    table_error = worst_table_error(step.history.segments[-1].observations[-1])
    if table_error is not None:
        extras["table_error"] = table_error
    few_knots: list[str] = []
    if layout.knots is not None:
        centre = np.asarray(state.z).mean(axis=0)
        if isinstance(layout.knots, FourierBox):
            times = np.array([one.t for one in step.history.snapshots])
            accuracy, few_knots = layout.knots.report(step.ssm.model, centre, snapshot.x, times)
        else:
            accuracy, few_knots = layout.knots.report(step.ssm.model, centre, snapshot.x)
        extras |= accuracy
    return OnlineInfo(
        t=state.t,
        step=state.step,
        seconds=seconds - step.spent.compile_seconds,
        compile_seconds=step.spent.compile_seconds,
        missing=int(np.isnan(snapshot.y).sum()),
        settings={"sampler": "online", "latent": layout.name, "why": layout.why, "filter": step.history.filter.name},
        warnings=(
            *_kernel_warnings(state, step.ssm),
            *_warnings(state, ess, extras, snapshot.y, len(step.ssm.in_particles)),
            *few_knots,
            *rank_warnings(step.history),
            *_noise_warnings(exact),
        ),
        extras=extras,
        log_evidence=state.log_evidence,
        log_evidence_se=float(np.sqrt(state.particles.log_evidence_variance())),
        ess=ess,
        rejuvenations=step.rejuvenations,
        exact=exact,
    )


def _exactness(state: OnlineState, step: OnlineStep, approximate: str) -> Exactness:
    if approximate:
        return Exactness(False, approximate)
    if step.ssm.model.likelihood.conjugate:
        compressed = last_compressed(step.history) is not None
        but = ", but for their compression: info.extras['low_rank_spread']" if compressed else ""
        return Exactness(True, f"Gaussian data: the filters are exact{but}", state.step)
    correction = state.correction
    assert correction is not None
    now = correction.step == state.step - state.revisions  # the number of snapshots
    why = "corrected by paths" if now else f"EP of each snapshot alone since step {correction.step}"
    if state.memory is not None:
        why = (
            f"history=: Gaussians of the parameters and of the state stand for steps up to {state.memory.anchor}; {why}"
        )
    exact = now and state.memory is None
    return Exactness(exact, why, correction.step, correction.paths, float(np.sqrt(correction.variance)))


def _noise_warnings(exact: Exactness) -> tuple[str, ...]:
    if not exact.noise > MAX_NOISE:
        return ()
    return (
        f"the correction by {exact.paths} paths is noisy: the log evidence of a particle has a standard error of "
        f"{exact.noise:.1f}, where {MAX_NOISE:.0f} is much; raise paths=, or check the data for outliers",
    )


def _ess(state: OnlineState) -> float:
    """Without inferred parameters all particles are one, and exact."""
    return state.particles.distinct_ess() if state.particles.z.shape[1] else state.particles.ess()


def _kernel_warnings(state: OnlineState, ssm: StateSpaceModel) -> list[str]:
    """Where the states that stand for time kernels are inaccurate."""
    found, ranges = [], ssm.ranges
    if ssm.error > MAX_KERNEL_ERROR:
        narrow = f", or narrow the prior of {' and of '.join(ranges)}" if ranges else ""
        found.append(
            f"the time kernel's state of order {ssm.order} is off by up to {ssm.error:.1e} of the correlation: "
            f"raise order= (it is {state.settings['order']}){narrow}"
        )
    for name, (low, high) in ranges.items():
        values = np.asarray(state.parameters[name])
        outside = float(np.mean((values < low) | (values > high)))
        if outside > MAX_OUTSIDE:
            found.append(
                f"{outside:.0%} of the draws of {name} are outside {low:.3g} to {high:.3g}, the values that the time "
                "kernel's state is fitted for (three prior standard deviations): widen its prior"
            )
    return found


def _warnings(
    state: OnlineState, ess: float, extras: dict[str, float], y: np.ndarray, inferred: int
) -> tuple[str, ...]:
    found, share = [], extras.get("linearisation_ess_fraction", 1.0)
    if np.isnan(y).all():
        found.append("all of y is missing: the draws are a forecast")
    if extras["lost"]:
        particles = len(state.particles.z)
        found.append(f"{extras['lost']} of {particles} particles were lost: the likelihood is NaN or -inf for them")
    size = len(state.particles.z)
    if inferred > MANY_PARAMETERS and state.step == 1:
        found.append(
            f"{inferred} parameters are many for {size} particles: their spread is known to a fifth or so, and the log "
            "evidence to a nat or two; compare runs of two keys, and raise particles= until they agree"
        )
    if inferred and ess < max(MIN_ESS_FRACTION * size, inferred + 1):
        found.append(
            f"only {ess:.0f} of {size} particles are effective: the data lie far from what the priors expect "
            "(units? an outlier?), or there are too few particles for so many parameters; widen the priors, or raise "
            "particles="
        )
    if share < MIN_LINEARISED_ESS_FRACTION:
        found.append(
            f"the linearisation of the likelihood is poor: {share:.0%} of draws from it are effective; compare with "
            "seqgp.SequentialSampler"
        )
    if extras.get("table_error", 0.0) > MAX_TABLE_ERROR:
        found.append(
            f"the table of the black box is off by up to {extras['table_error']:.2g} in log density: the likelihood "
            "jumps, or its numbers are rough; tighten the tolerance of what it calls"
        )
    return tuple(found)
