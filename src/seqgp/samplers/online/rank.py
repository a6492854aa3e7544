"""The rank of the filters of a network with gaps, held to an accuracy on a few particles."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.errors import SamplerError
from seqgp.runtime.processes import gathered
from seqgp.samplers.online.budget import check_memory
from seqgp.samplers.online.filters import Filters, Spent, filter_of, particle_count, run_filters
from seqgp.samplers.online.history import Timeline, laid_out
from seqgp.samplers.online.network import NetworkPlan
from seqgp.samplers.particles import Particles
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.rank import TOLERANCE, TWO_LEVELS, RankError, RankRun, choose_rank, is_accurate, largest_rank
from seqgp.statespace.two_level import choose_leading_modes

CHECKED = 8  # particles on which a rank is compared with twice the rank
NOTHING = 1e-9  # a folded trace that is rounding


def with_accurate_rank(
    history: Timeline, particles: Particles, filters: Filters, number: int, together: int, whole: bool
) -> tuple[Timeline, Spent]:
    """The history with a rank at which log evidences are those at twice the rank, within the tolerance.

    Where no rank below the one at which the dense filter is cheaper is good enough, the history is laid out for the
    dense filter; where that does not fit into memory, the largest rank stays, and ``info.warnings`` says so.

    Args:
        history: whose last filter is of low rank.
        particles: from which a few are taken, in proportion to their weights.
        filters: of all particles.
        number: of the step.
        together: how many of the first snapshots have their sites from the start.
        whole: whether the particles' log evidences are of all snapshots of the history, and not discounted.
    """
    spent, filter, plan = Spent(), history.filter, history.plan
    assert isinstance(filter, NetworkFilter)
    folded = folded_traces(filters)
    if folded.max() < NOTHING:
        return history.compressed(_planned(plan, RankError(plan.rank, 0.0, 0.0, 0.0), number)), spent
    few = few_particles(particles)
    z, known = particles.z[few], whole
    if filter.sites >= TWO_LEVELS:
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

    rooms = [0 if one.gaps is None else len(one.gaps) for one in history.segments[-1].observations]
    most = largest_rank(filter.sites, history.ssm.order, int(np.mean(rooms)))
    tried = choose_rank(run, most, first=plan.rank)
    chosen = _planned(plan.refined(tried[-1].rank, filter.sites), tried[-1], number)
    if is_accurate(tried[-1]):
        return history.compressed(chosen), spent
    ssm, latent, snapshots, surrogates = history.ssm, history.latent, history.snapshots, history.surrogates
    dense = laid_out(ssm, latent, snapshots, surrogates, together, chosen._replace(rank=0))
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
    """What compression has folded, added up over the steps, for each particle."""
    mine = np.concatenate([np.asarray(state.folded) for _, state in filters.groups])
    return gathered(mine, particle_count(filters))


def rank_extras(history: Timeline) -> dict[str, float]:
    """What people are told of the compression."""
    if not isinstance(history.filter, NetworkFilter):
        return {}
    plan = history.plan
    told = {
        "low_rank": plan.rank,
        "low_rank_shift": plan.shift,
        "low_rank_spread": plan.spread,
        "low_rank_folded": plan.folded,
    }
    return told if plan.leading is None else told | {"leading_modes": plan.leading, "left_out": plan.left_out}


def rank_warnings(history: Timeline) -> tuple[str, ...]:
    """Said where the compression is not as accurate as it should be."""
    plan = history.plan
    accurate = plan.spread <= TOLERANCE and abs(plan.shift) <= 3 * TOLERANCE
    if accurate or not isinstance(history.filter, NetworkFilter):
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
