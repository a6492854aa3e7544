"""A page of what :func:`seqgp.explore` found."""

from __future__ import annotations

from pathlib import Path

from seqgp.evaluate.explore import DataExploration
from seqgp.evaluate.suggestion import Suggestion, findings
from seqgp.io.files import write_atomically
from seqgp.plots.exploration import exploration
from seqgp.report.page import Page

STATIONS = 20  # in the table of noise, at most


def exploration_report(found: DataExploration, path: str | Path, title: str = "What the data say") -> Path:
    """Write one self-contained HTML page: findings, figures, the noisiest stations, the suggested model.

    Args:
        found: the result of :func:`seqgp.explore`.
        path: the file to write.
        title: of the page.
    """
    page = Page(title)
    table, missing = found.stations, found.missing
    page.facts(
        {
            "stations": len(table.x),
            "times": len(table.t),
            "missing": f"{100 * missing.share:.1f}%",
            "time between snapshots, median": f"{_median_step(found):.4g}",
        }
    )
    for line in findings(found)[1:]:
        page.text(f"{line[0].upper()}{line[1:]}.")
    page.heading("Figures")
    page.figures(exploration(found))
    page.heading("Stations, the noisiest first")
    order = [k for k in (-found.noise.noise).argsort() if found.noise.noise[k] == found.noise.noise[k]]
    rows = [
        [
            table.names[k],
            f"{found.noise.noise[k]:.3g} ± {found.noise.se[k]:.2g}",
            f"{100 * missing.by_station[k]:.1f}%",
            f"{missing.longest_gap[k]:.4g}",
        ]
        for k in order[:STATIONS]
    ]
    page.numbers(["station", "noise", "missing", "longest gap"], rows)
    if len(order) > STATIONS:
        page.text(f"{len(order) - STATIONS} more stations have less noise.", soft=True)
    page.heading("Candidates for the kernel")
    page.text("Separable kernels fitted to the variogram; error is the relative one of a class.", soft=True)
    fits = [
        [f"{one.time} × {one.space}", *(f"{value:.3g}" for value in one[2:6]), f"{100 * one.error:.1f}%"]
        for one in found.candidates
    ]
    page.numbers(["time × space", "time lengthscale", "space lengthscale", "scale", "noise", "error"], fits)
    page.heading("Suggested model")
    page.text("A first model, with priors around what was found, in the units of the data.", soft=True)
    page.table(_model_rows(found.suggested))
    target = Path(path)
    write_atomically(target, lambda file: file.write(page.html(_subtitle(found)).encode()))
    return target


def _median_step(found: DataExploration) -> float:
    steps = found.stations.t[1:] - found.stations.t[:-1]
    return float(sorted(steps)[len(steps) // 2])


def _subtitle(found: DataExploration) -> str:
    t = found.stations.t
    return f"Method of moments, before any model; times from {t[0]:.6g} to {t[-1]:.6g}"


def _model_rows(suggested: Suggestion) -> dict[str, str]:
    rows = {"kernel": f"{suggested.kernel}: {suggested.time} in time, {suggested.space} in space"}
    rows |= {name: str(prior) for name, prior in suggested.priors.items()}
    if suggested.by_station:
        rows["noise by station"] = "stations differ"
    if suggested.seasonal:
        rows["season"] = "the variance has one"
    return rows
