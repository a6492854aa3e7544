"""From a run to a page: what was run, the latent now and over time, parameters, forecasts, diagnostics, settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqgp import plots
from seqgp.io.checks import Check, forecast_checks
from seqgp.io.errors import StoreError
from seqgp.io.files import write_atomically
from seqgp.io.history import History, history_of
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS
from seqgp.models.model import Model
from seqgp.plots.figures import FRAMES
from seqgp.report.page import Page
from seqgp.report.sentences import about_forecasts, about_sampling, verdict

LARGEST = 6_000_000  # bytes of a page


def report(source: Any, path: str | Path, model: Model | None = None) -> Path:
    """Write one self-contained HTML page about a run.

    Args:
        source: a ``Run`` with a store, or a :class:`seqgp.Store`.
        path: the file to write.
        model: the model, for the forecast checks; a store knows it where it is made of ready-made parts.
    """
    store = source if isinstance(source, Store) else source.store
    if store is None:
        raise StoreError("report: the run is not stored; make it with seqgp.run(…, store=…)")
    model = model or getattr(source, "model", None)
    history, checks = history_of(store), forecast_checks(store, model)
    frames = FRAMES
    text = _page(history, checks, store, frames)
    while len(text.encode()) > LARGEST and frames > 1:
        frames //= 2
        text = _page(history, checks, store, frames)
    target = Path(path)
    write_atomically(target, lambda file: file.write(text.encode()))
    return target


def _page(history: History, checks: Sequence[Check], store: Store, frames: int) -> str:
    page = Page(history.title)
    draws = int(store.manifest.sampler.get("draws", "0"))
    infos = [moment.info for moment in history.moments]
    _what(page, history, draws)
    sentences = [*about_sampling(infos), *about_forecasts(checks)]
    page.findings([*sentences, *verdict(infos, checks, sentences)])
    _latent(page, history, frames)
    _parameters(page, history)
    _forecasts(page, history, checks)
    page.heading("Diagnostics")
    page.text(
        "ESS is the number of independent draws that the draws are worth; R-hat compares the chains, and is close to 1 "
        "where they agree.",
        soft=True,
    )
    page.figure(plots.diagnostics(history), "diagnostics over time")
    _cost(page, infos)
    _settings(page, store)
    versions = store.manifest.versions
    return page.html(f"seqgp {versions.get('seqgp')}, run begun {store.manifest.created}")


def _what(page: Page, history: History, draws: int) -> None:
    first, last = history.moments[0], history.moments[-1]
    points = sum(len(moment.x) for moment in history.moments)
    missing = sum(moment.info.missing for moment in history.moments)
    page.facts(
        {
            "steps": len(history.moments),
            f"{history.time}, first": _time(history, first.t),
            f"{history.time}, last": _time(history, last.t),
            "locations, last step": len(last.x),
            "locations, all steps": points,
            "missing data": missing,
            "draws a step": draws,
            "seconds a step": f"{np.median([moment.info.seconds for moment in history.moments]):.2g}",
        }
    )


def _latent(page: Page, history: History, frames: int) -> None:
    page.heading("The latent function now")
    page.text(_caption(history), soft=True)
    page.figure(plots.field(history), "the latent function at the last step")
    if len(history.moments) > 1:
        page.heading("Its evolution")
        shown = min(frames, len(history.moments))
        more = "" if shown == len(history.moments) else f" ({shown} of {len(history.moments)} steps are shown)"
        page.text(f"Move the slider to go through time{more}.", soft=True)
        page.figure(plots.evolution(history, frames), "the latent function over time")


def _caption(history: History) -> str:
    dimension = history.moments[-1].x.shape[1]
    if dimension == 1:
        return "The median, with bands that hold 50 % and 95 % of the posterior; dots are data."
    if dimension == 2:
        return (
            "The posterior mean at the locations (dots), drawn through between them for the eye. Point at a dot for "
            "its value, uncertainty and datum."
        )
    return "The median at each location, with an interval that holds 95 % of the posterior; dark dots are data."


def _parameters(page: Page, history: History) -> None:
    found = history.parameters()
    if not found:
        return
    page.heading("Parameters")
    page.text("In natural units: the median, with bands that hold 50 % and 95 % of the posterior.", soft=True)
    info = history.moments[-1].info
    shown = ("mean", "sd", "2.5%", "50%", "97.5%")
    rows = [
        [
            name,
            *(f"{values[-1, STATISTICS.index(s)]:.4g}" for s in shown),
            f"{info.ess.get(name, np.nan):.0f}",
            f"{info.rhat.get(name, np.nan):.3f}",
        ]
        for name, values in found.items()
    ]
    page.numbers(["now", *shown, "ESS", "R-hat"], rows)
    page.figures({name: plots.parameter(history, name) for name in found})


def _forecasts(page: Page, history: History, checks: Sequence[Check]) -> None:
    page.heading("How good were the forecasts?")
    if not checks:
        page.text(
            "No step could be checked: that needs two steps, the draws of the first, and a model of ready-made parts "
            "(or report(…, model=…))."
        )
        return
    page.text(
        f"Each of the last {len(checks)} steps was forecast from the draws of the one before, which had not seen its "
        "data. If the forecasts are calibrated, the histogram is flat (within the grey band), and the shares inside "
        "follow the dotted lines.",
        soft=True,
    )
    page.figures(
        {
            "Where the data fell": plots.calibration(checks),
            "Data inside their interval": plots.coverage(history, checks),
            "Scores": plots.scores(history, checks),
        }
    )


def _cost(page: Page, infos: Sequence[Any]) -> None:
    last = infos[-1]
    rows = [
        [name, str(u.updates), f"{u.evaluations_per_update:.2f}", str(u.capped), str(u.not_positive_definite)]
        for name, u in last.updates.items()
    ]
    page.numbers(["updates of the last step", "updates", "evaluations each", "capped", "not positive definite"], rows)


def _settings(page: Page, store: Store) -> None:
    manifest = store.manifest
    page.heading("Settings")
    page.table(
        {f"model: {name}": value for name, value in manifest.model.items()}
        | {f"sampler: {name}": value for name, value in manifest.sampler.items()}
        | {"last step": ", ".join(f"{k} = {v}" for k, v in store.latest().info.settings.items())}
        | {"key": f"{manifest.key['data']} ({manifest.key['implementation']})"}
        | {"versions": ", ".join(f"{name} {version}" for name, version in manifest.versions.items())}
    )


def _time(history: History, t: float) -> str:
    when = history.when(t)
    return f"{when:.6g}" if isinstance(when, float) else str(when).replace("T00:00:00", "")
