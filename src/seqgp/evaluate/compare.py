"""Models compared by what they said about the data before seeing them: evidence and forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import DataError
from seqgp.evaluate.paired import ScoreMean, clustered_mean

CLEAR_STANDARD_ERRORS = 2.0  # by which one model must be better


class Candidate(NamedTuple):
    """A model in a comparison.

    Attributes:
        name: its name.
        log_evidence: ``log p(y_1, …, y_t)``; NaN where the sampler has none.
        se: its Monte Carlo standard error.
        difference: the log evidence less that of the best.
        difference_se: the standard error of the difference.
        weight: the posterior probability of the model, under equal prior probabilities.
        crps: the mean over steps of the CRPS, averaged over the values of a step.
        log_score: the mean over steps of the joint log score of a step's data.
        coverage: the mean over steps of the share of values inside their 95% intervals.
        crps_difference: the paired difference from the best; below zero where this model forecasts better.
        log_score_difference: the paired difference from the best; above zero where this model forecasts better.
    """

    name: str
    log_evidence: float
    se: float
    difference: float
    difference_se: float
    weight: float
    crps: float
    log_score: float
    coverage: float
    crps_difference: ScoreMean
    log_score_difference: ScoreMean


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
            "CRPS difference": [(one.crps_difference.value, str(one.crps_difference)) for one in self.candidates],
            "log score": [(one.log_score, f"{one.log_score:.3f}") for one in self.candidates],
            "log score difference": [
                (one.log_score_difference.value, str(one.log_score_difference)) for one in self.candidates
            ],
            "95% coverage": [(one.coverage, f"{one.coverage:.3f}") for one in self.candidates],
        }
        shown = {head: cells for head, cells in columns.items() if not all(np.isnan(value) for value, _ in cells)}
        rows = [[one.name, *(cells[i][1] for cells in shown.values())] for i, one in enumerate(self.candidates)]
        lines = [f"| {' | '.join(line)} |" for line in (["model", *shown], *rows)]
        return "\n".join([lines[0], "|---" * (len(shown) + 1) + "|", *lines[1:]])

    def disagreements(self) -> list[str]:
        """A sentence for each model that forecasts better than the best by evidence, by two standard errors or more."""
        first, found = self.candidates[0], []
        if np.isnan(first.log_evidence):
            return found
        for one in self.candidates[1:]:
            better = []
            crps, log_score = one.crps_difference, one.log_score_difference
            if crps.value < -CLEAR_STANDARD_ERRORS * crps.se:
                share = f" ({100 * -crps.value / first.crps:.1f}%)" if first.crps > 0 else ""
                better.append(f"its CRPS is lower by {-crps.value:.3g} ± {crps.se:.2g}{share}")
            if log_score.value > CLEAR_STANDARD_ERRORS * log_score.se:
                better.append(f"its log score is higher by {log_score.value:.3g} ± {log_score.se:.2g} a step")
            if better:
                by = f"{-one.difference:.1f} ± {one.difference_se:.1f}"
                found.append(
                    f"The evidence prefers {first.name} to {one.name} by {by}, but {one.name} forecasts better: "
                    f"{', and '.join(better)}."
                )
        return found

    def __str__(self) -> str:
        """The table, and where evidence and forecasts disagree."""
        return "\n".join([self.table(), *self.disagreements()])


def compare(runs: Mapping[str, object]) -> Comparison:
    """Compare models by runs over the same data.

    The evidence is the marginal density of the data, with parameters and latent function integrated out. Runs of the
    online sampler have it. Forecasts (``run(…, forecast=True)``) are compared over the steps that all runs forecast.

    Runs that transform their data differently have evidence of different data, so the comparison leaves it out. Scores
    of forecasts are in the units of the data. Differences between forecasts are paired step by step, and their standard
    errors allow for dependence in time. The printed comparison says where evidence and forecasts disagree: an extra
    term may explain the past and forecast badly.

    Args:
        runs: a run for each name, over the same snapshots.
    """
    last, times = check_runs("compare", runs), forecast_times(runs)
    evidence = evidence_of(runs)
    variance = {name: _number(getattr(info, "log_evidence_se", None)) ** 2 for name, info in last.items()}
    steps = {name: _at(run, times) for name, run in runs.items()}
    scores = {name: _mean_scores(found) for name, found in steps.items()}
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
            _paired(steps[name], steps[best], times, "crps"),
            _paired(steps[name], steps[best], times, "log_score"),
        )
        for name in order
    )
    return Comparison(candidates, len(times))


def check_runs(who: str, runs: object) -> dict[str, Any]:
    """The last info of each run; raise unless there are two or more that end at the same time."""
    if not isinstance(runs, Mapping) or not all(hasattr(run, "infos") for run in runs.values()):
        raise DataError(f"{who}: expected a dictionary of runs by name, {{'rough': run_a, 'smooth': run_b}}")
    if len(runs) < 2:
        raise DataError(f"{who}: {len(runs)} run was given, expected two or more")
    last = {name: run.infos[-1] for name, run in runs.items()}
    if len({info.t for info in last.values()}) > 1:
        said = ", ".join(f"{name} at t = {info.t:g}" for name, info in last.items())
        raise DataError(f"{who}: the runs end at different times ({said}); run all of them over the same snapshots")
    return last


def evidence_of(runs: Mapping[str, Any]) -> dict[str, float]:
    """The log evidence of each run; NaN where it is not known, and where runs transform their data differently."""
    if len({_transform(run) for run in runs.values()}) > 1:
        return dict.fromkeys(runs, float("nan"))
    return {name: _number(getattr(run.infos[-1], "log_evidence", None)) for name, run in runs.items()}


def forecast_times(runs: Mapping[str, Any], score: str | None = None) -> list[float]:
    """The times that all runs forecast, with this score if one is named."""
    found = [
        {info.t for info in run.infos if info.scores and (score is None or score in info.scores)}
        for run in runs.values()
    ]
    return sorted(set.intersection(*found))


def _at(run: Any, times: list[float]) -> list[dict[str, float]]:
    infos = {info.t: info for info in run.infos}
    return [infos[t].scores for t in times]


def _paired(one: list[dict[str, float]], other: list[dict[str, float]], times: list[float], name: str) -> ScoreMean:
    """The mean difference of a score over the steps that have it in both, with a standard error."""
    both = [(t, a[name] - b[name]) for t, a, b in zip(times, one, other) if name in a and name in b]
    return clustered_mean(np.array([value for _, value in both]), [t for t, _ in both])


def _transform(run: object) -> str:
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
