"""Models compared by what they said about the data before seeing them: evidence and forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import DataError


class Candidate(NamedTuple):
    """One model of a comparison."""

    name: str
    log_evidence: float  # log p(y_1:t); NaN where the sampler has none
    se: float  # its standard error
    difference: float  # from the best
    difference_se: float
    weight: float  # its posterior probability among the candidates, all alike before
    crps: float  # mean over the steps that were forecast of the mean over a step's values: a step counts once
    log_score: float  # mean over the steps, of all data of a step jointly
    coverage: float  # of 95% intervals: likewise, a mean over steps of the share of a step's values


class Comparison(NamedTuple):
    """Models side by side, the best first."""

    candidates: tuple[Candidate, ...]
    steps: int  # over which forecasts are averaged

    @property
    def best(self) -> str:
        """The name of the best by evidence (by log score, where there is none)."""
        return self.candidates[0].name

    def table(self) -> str:
        """As Markdown; without the columns that no candidate has."""
        columns = {
            "log evidence": [(one.log_evidence, f"{one.log_evidence:.2f} ± {one.se:.2f}") for one in self.candidates],
            "difference": [
                (one.difference, f"{one.difference:.2f} ± {one.difference_se:.2f}") for one in self.candidates
            ],
            "weight": [(one.weight, f"{one.weight:.3f}") for one in self.candidates],
            "CRPS": [(one.crps, f"{one.crps:.4f}") for one in self.candidates],
            "log score": [(one.log_score, f"{one.log_score:.3f}") for one in self.candidates],
            "95% coverage": [(one.coverage, f"{one.coverage:.3f}") for one in self.candidates],
        }
        shown = {head: cells for head, cells in columns.items() if not all(np.isnan(value) for value, _ in cells)}
        rows = [[one.name, *(cells[i][1] for cells in shown.values())] for i, one in enumerate(self.candidates)]
        lines = [f"| {' | '.join(line)} |" for line in (["model", *shown], *rows)]
        return "\n".join([lines[0], "|---" * (len(shown) + 1) + "|", *lines[1:]])

    def __str__(self) -> str:
        """The table."""
        return self.table()


def compare(runs: Mapping[str, Any]) -> Comparison:
    """Compare models by runs over the same data.

    The evidence is the marginal density of the data, with parameters and latent function integrated out. Runs of the
    online sampler have it. Forecasts (``run(…, forecast=True)``) are compared over the steps that all runs forecast.

    Where runs transform their data differently, their evidence is of different data and is left out. Scores of
    forecasts are in the units of the data.

    Args:
        runs: a run for each name, over the same snapshots.
    """
    if not isinstance(runs, Mapping) or not all(hasattr(run, "infos") for run in runs.values()):
        raise DataError("compare: expected a dictionary of runs by name, {'rough': run_a, 'smooth': run_b}")
    if len(runs) < 2:
        raise DataError(f"compare: {len(runs)} run was given, expected two or more to compare")
    infos = {name: {info.t: info for info in run.infos} for name, run in runs.items()}
    last = {name: run.infos[-1] for name, run in runs.items()}
    ends = {info.t for info in last.values()}
    if len(ends) > 1:
        said = ", ".join(f"{name} at t = {info.t:g}" for name, info in last.items())
        raise DataError(f"compare: the runs end at different times ({said}); run all of them over the same snapshots")
    shared = set.intersection(*({t for t, info in found.items() if info.scores} for found in infos.values()))
    evidence = {name: _number(getattr(info, "log_evidence", None)) for name, info in last.items()}
    if len({_transform(run) for run in runs.values()}) > 1:
        evidence = dict.fromkeys(evidence, float("nan"))
    variance = {name: _number(getattr(info, "log_evidence_se", None)) ** 2 for name, info in last.items()}
    scores = {name: _mean_scores([infos[name][t].scores for t in sorted(shared)]) for name in runs}
    known = all(np.isfinite(value) for value in evidence.values())
    order = sorted(runs, key=lambda name: -(evidence[name] if known else scores[name][1]))
    best = order[0]
    relative = {name: evidence[name] - evidence[best] for name in order}
    total = sum(np.exp(value) for value in relative.values()) if known else float("nan")
    candidates = tuple(
        Candidate(
            name,
            evidence[name],
            float(np.sqrt(variance[name])),
            relative[name],
            0.0 if name == best else float(np.sqrt(variance[name] + variance[best])),
            float(np.exp(relative[name]) / total),
            *scores[name],
        )
        for name in order
    )
    return Comparison(candidates, len(shared))


def _transform(run: Any) -> str:
    """What a stored run says of the transform of its data."""
    store = getattr(run, "store", None)
    return "None" if store is None else repr(store.manifest.section("data").get("transform"))


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _mean_scores(scores: list[dict[str, float]]) -> tuple[float, float, float]:
    if not scores:
        return float("nan"), float("nan"), float("nan")
    names = ("crps", "log_score", "coverage_95")
    found = {name: [one[name] for one in scores if name in one] for name in names}  # zeros alone have no log score
    crps, log_score, coverage = (float(np.mean(found[name])) if found[name] else float("nan") for name in names)
    return crps, log_score, coverage
