"""Whether ranks are uniform: chi-square tests corrected for their number, and a plot with simultaneous bands."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.errors import extra

RANKS = 100  # 0, …, 99
MOST_BINS = 20


def bins_for(simulations: int) -> int:
    """How many bins: a divisor of the number of ranks, with at least five simulations expected in each."""
    return max(b for b in range(2, MOST_BINS + 1) if RANKS % b == 0 and simulations >= 5 * b)


def chi_square(ranks: Int[np.ndarray, " simulations"]) -> float:
    """The p-value of Pearson's test that ranks are uniform."""
    bins = bins_for(len(ranks))
    counts = np.bincount(ranks * bins // RANKS, minlength=bins)
    expected = len(ranks) / bins
    from scipy.stats import chi2

    return float(chi2.sf(np.sum((counts - expected) ** 2) / expected, bins - 1))


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Holm's correction: valid whatever the dependence between the tests."""
    order = sorted(p_values, key=lambda name: p_values[name])
    corrected, worst = {}, 0.0
    for i, name in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - i) * p_values[name]))
        corrected[name] = worst
    return {name: corrected[name] for name in p_values}


def transforms(ranks: Int[np.ndarray, " simulations"], seed: int = 0) -> Float[np.ndarray, " simulations"]:
    """Ranks spread evenly over the unit interval."""
    return (ranks + np.random.default_rng(seed).random(len(ranks))) / RANKS


def plot_ranks(ranks: dict[str, np.ndarray], probability: float = 0.99) -> Any:
    """The difference of the empirical distribution from uniformity, with simultaneous bands (ArviZ)."""
    with extra("plots"):
        import arviz_base
        import arviz_plots
    values = {name: transforms(rank)[None] for name, rank in ranks.items()}
    tree = arviz_base.from_dict({"prior_sbc": values})
    return arviz_plots.plot_ecdf_pit(
        tree,
        group="prior_sbc",
        ci_prob=probability,
        backend="matplotlib",
        figure_kwargs={"layout": "constrained", "figsize": (12, 2.2 * -(-len(values) // 4))},
    )
