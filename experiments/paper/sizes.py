"""How large each experiment is: as in the paper, or small enough for two minutes."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """The sizes of all experiments."""

    name: str
    n: int  # regression: points a snapshot
    steps: int
    draws: int
    data_sets: int  # of figure 4; the first one also of figure 2
    particles: int  # of the online sampler, everywhere
    nodes: int  # of its knots, along each side
    full: tuple[int, int, int, int, int, int]  # n, steps, draws, exact draws, exact warm-up, draws of the full sampler
    option_steps: int
    option_draws: int
    option_warmup: int
    option_thin: int


PAPER = Sizes("paper", 200, 20, 1000, 10, 256, 8, (100, 10, 1000, 1000, 400, 400), 12, 1000, 500, 18)
QUICK = Sizes("quick", 20, 3, 100, 2, 16, 3, (10, 3, 100, 100, 50, 20), 2, 40, 10, 1)
