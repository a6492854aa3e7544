"""The rank of the filters of a network with gaps, held to an accuracy on a few particles."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.errors import SamplerError
from seqgp.runtime.parallel import gathered
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.budget import check_memory
from seqgp.samplers.online.filters import Filters, Spent, filter_of, particle_count, run_filters
from seqgp.samplers.online.history import Segment, Timeline, build_timeline
from seqgp.samplers.online.network import NetworkPlan
from seqgp.statespace.network import NetworkFilter, NetworkState
from seqgp.statespace.rank import TOLERANCE, TWO_LEVELS, RankError, RankRun, choose_rank, is_accurate, largest_rank
from seqgp.statespace.two_level import choose_leading_modes

CHECKED = 8  # particles on which a rank is compared with twice the rank
NOTHING = 1e-9  # a folded trace that is rounding
MUCH_FOLDED = 0.1  # a folded trace since the last check, after which the rank is checked again


def with_accurate_rank(
    history: Timeline, particles: Particles, filters: Filters, number: int, together: int, whole: bool
) -> tuple[Timeline, Spent]:
    """The history with a rank at which log evidences are those at twice the rank, within the tolerance.

    Where no rank below the one at which the dense filter is cheaper is good enough, the history is laid out for the
    dense filter; where that does not fit into memory, the largest rank stays, and ``info.warnings`` says so.

    Args:
        history: with a filter of low rank, now or before.
        particles: from which a few are taken, in proportion to their weights.
        filters: of all particles.
        number: of the step.
        together: how many of the first snapshots have their sites from the start.
        whole: whether the particles' log evidences are of all snapshots of the history, and not discounted.
    """
    spent, filter, plan = Spent(), last_compressed(history), history.plan
    assert filter is not None
    now, folded = filter is history.filter, folded_traces(filters)
    if now and folded.max() < NOTHING:
        return history.compressed(_planned(plan, RankError(plan.rank, 0.0, 0.0, 0.0), number)), spent
    few = few_particles(particles)
    z, known = particles.z[few], whole
    if now and filter.sites >= TWO_LEVELS:
        before, plan = plan, with_leading(filter, plan, filters, few, history.snapshots[-1].t)
        known = whole and plan.leading == before.leading

    def run(rank: int) -> RankRun:
        nonlocal spent
        if known and rank == plan.rank:
            return RankRun((particles.log_evidences + particles.log_increment)[few], folded[few])
        refined = history.compressed(plan.refined(rank, filter.sites))
        found, increments, cost = run_filters(refined, z, len(history.snapshots))
        spent += Spent(0, cost.compile_seconds)
        return RankRun(increments.sum(axis=1), folded_traces(found))

    rooms = [len(one.gaps) for one in _compressed_segments(history)[-1].observations if one.gaps is not None]
    most = largest_rank(filter.sites, history.ssm.order, int(np.mean(rooms)))
    tried = choose_rank(run, most, first=plan.rank)
    chosen = _planned(plan.refined(tried[-1].rank, filter.sites), tried[-1], number)
    if is_accurate(tried[-1]):
        return history.compressed(chosen), spent
    ssm, latent, snapshots, linearised_snapshots = (
        history.ssm,
        history.latent,
        history.snapshots,
        history.linearised_snapshots,
    )
    dense = build_timeline(ssm, latent, snapshots, linearised_snapshots, together, chosen._replace(rank=0))
    try:
        check_memory(dense, len(particles.z))
    except SamplerError:
        return history.compressed(chosen), spent
    return dense, spent


def with_leading(
    filter: NetworkFilter, plan: NetworkPlan, filters: Filters, few: Int[np.ndarray, " k"], t: float
) -> NetworkPlan:
    """With as many leading modes as the kernels of a few particles ask for.

    They become fewer only where half of them would do: each number is a compilation, and all filters run anew.
    """
    ssm, variances, noise = filter.ssm, [], []
    for particle in few:
        matrices, _ = filter_of(filters, int(particle), filter)
        terms = np.asarray(ssm.term_variances(matrices.parameters, np.asarray(t)))
        variances.append(terms @ np.asarray(matrices.modes.values))
        noise.append(float(ssm.model.likelihood.noise(filter.context, matrices.parameters)))
    found, now = choose_leading_modes(np.stack(variances), np.array(noise)), plan.leading or filter.sites
    leading = now if now / 2 <= found.num_modes <= now else found.num_modes
    return plan._replace(leading=leading, left_out=found.left_out)


def few_particles(particles: Particles) -> Int[np.ndarray, " k"]:
    """Particles at equal steps of the weights."""
    positions = (np.arange(CHECKED) + 0.5) / CHECKED
    return np.minimum(np.searchsorted(np.cumsum(particles.weights()), positions), len(particles.z) - 1)


def folded_traces(filters: Filters) -> Float[np.ndarray, " S"]:
    """What compression has folded, added up over the steps, for each particle; 0 where another filter took over."""
    if not all(isinstance(state, NetworkState) for _, state in filters.groups):
        return np.zeros(particle_count(filters))
    mine = np.concatenate([np.asarray(state.folded) for _, state in filters.groups])
    return gathered(mine, particle_count(filters))


def last_compressed(history: Timeline) -> NetworkFilter | None:
    """The last filter of low rank: log evidences have its error, also where another filter has taken over."""
    found = _compressed_segments(history)
    return found[-1].filter if found else None  # pyright: ignore[reportReturnType]


def _compressed_segments(history: Timeline) -> list[Segment]:
    return [one for one in history.segments if isinstance(one.filter, NetworkFilter)]


def rank_due(history: Timeline, filters: Filters, number: int) -> bool:
    """Whether the rank is to be checked: the data have doubled, another filter has taken over, or gaps became many.

    The last shows in what compression has folded since the last check: as much as before it, and worth to look at.
    """
    plan, last = history.plan, history.segments[-1]
    if last_compressed(history) is None:
        return False
    if number >= 2 * plan.checked_at:
        return True
    if not isinstance(last.filter, NetworkFilter):
        return len(last.observations) == 1
    return bool(folded_traces(filters).max() > 2 * plan.folded + MUCH_FOLDED)


def rank_extras(history: Timeline) -> dict[str, float]:
    """What the info says of the compression."""
    if last_compressed(history) is None:
        return {}
    plan = history.plan
    extras = {
        "low_rank": plan.rank,
        "low_rank_shift": plan.shift,
        "low_rank_spread": plan.spread,
        "low_rank_folded": plan.folded,
    }
    return extras if plan.leading is None else extras | {"leading_modes": plan.leading, "left_out": plan.left_out}


def rank_warnings(history: Timeline) -> tuple[str, ...]:
    """Said where the compression is not as accurate as it should be."""
    plan = history.plan
    accurate = plan.spread <= TOLERANCE and abs(plan.shift) <= 3 * TOLERANCE
    if accurate or last_compressed(history) is None:
        return ()
    return (
        f"the filter of low rank is off by {plan.shift:.2g} in log evidence, and by {plan.spread:.2g} between "
        f"particles: no rank above {plan.rank} pays, and the dense filter does not fit into memory; take fewer "
        "particles, or latent=seqgp.Knots(…)",
    )


def _planned(plan: NetworkPlan, error: RankError, number: int) -> NetworkPlan:
    return plan._replace(
        rank=error.rank, checked_at=number, shift=error.shift, spread=error.spread, folded=error.folded
    )
