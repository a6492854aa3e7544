"""The memory that samplers of chains need, checked before anything is compiled."""

from __future__ import annotations

import numpy as np

from seqgp.fields.dense import Dense
from seqgp.mcmc.plan import DEFAULT_CHAINS, Budget
from seqgp.mcmc.problem import Problem
from seqgp.runtime.engine import cores
from seqgp.runtime.memory import BYTES_PER_FLOAT, check_fits

FIRST_MATRICES = 8  # of all sites with all, that a chain has in hand at most
STEP_MATRICES = 4  # the same of window and present, where the window is given
DRAW_MATRICES = 5  # the same, of a prediction: one draw a core after the other


def check_chains(who: str, problem: Problem, budget: Budget) -> None:
    """Raise where covariances between all sites do not fit into memory.

    Args:
        who: the sampler.
        problem: its sites.
        budget: of draws and chains.
    """
    if not isinstance(problem.representation, Dense):
        return
    times, sites = np.shape(problem.x)[:2]
    chains = budget.chains or min(DEFAULT_CHAINS, budget.draws)
    matrices = STEP_MATRICES if times > len(problem.observed) else FIRST_MATRICES
    instead = "latent=seqgp.Knots(…), or seqgp.OnlineSampler" if who == "SequentialSampler" else "seqgp.OnlineSampler"
    check_fits(
        BYTES_PER_FLOAT * chains * matrices * (times * sites) ** 2,
        f"{who}: {chains} chains on {sites} sites at {times} time{'' if times == 1 else 's'} together",
        f"take fewer chains, {instead}",
    )


def check_draws(representation: object, blocks: int, sites: int) -> None:
    """The same of a prediction at ``sites`` inputs beside a window of ``blocks - 1`` times."""
    if isinstance(representation, Dense):
        check_fits(
            BYTES_PER_FLOAT * cores() * DRAW_MATRICES * (blocks * sites) ** 2,
            f"predict: f at {sites} inputs jointly, beside a window of as many sites at {blocks - 1} times,",
            "take fewer inputs at a time",
        )
