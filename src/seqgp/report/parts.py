"""Parts of the report: the stations, what a step costs, settings in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from seqgp.base.flags import station_names
from seqgp.base.info import Info, OnlineInfo
from seqgp.base.transforms import Transform
from seqgp.evaluate.stations import StationReport, StationStep, station_cells, station_head, station_report
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.plots.history import History
from seqgp.report.page import Page
from seqgp.samplers.online.stations import StationNoise

ROWS = 300  # of the table of stations, those that are flagged first
FIRST = 10  # of them that are seen at once


def stations_found(history: History, transform: Transform | None) -> StationReport | None:
    """What the monitor says of the stations; ``None`` where it does not look at them."""
    steps = []
    for moment in history.steps:
        info = moment.info
        if not isinstance(info, OnlineInfo) or info.loo is None or info.stations is None:
            return None
        steps.append(StationStep(info.t, station_names(moment.x, moment.labels), info.loo, info.stations))
    return station_report(steps, lambda t: _when(history, t), transform)


def station_section(page: Page, found: StationReport) -> None:
    """The table of stations: those that are flagged and a few more, and all behind a click."""
    page.heading("Stations")
    page.text(
        "Each reading is predicted from all others and the past; scores of these predictions have a standard deviation "
        "of 1 where the model fits. Wrong readings are single ones; unused values were excluded or downweighted.",
        soft=True,
    )
    head, shown = station_head(found), max(FIRST, len(found.flagged))
    rows = [station_cells(one, found) for one in found.stations]
    if len(rows) <= shown + FIRST:
        page.numbers(head, rows)
        return
    page.numbers(head, rows[:shown])
    page.numbers(head, rows[shown:ROWS], folded=f"{min(len(rows), ROWS) - shown} more stations")
    if len(rows) > ROWS:
        page.text(f"{ROWS} of {len(rows)} stations are shown; seqgp stations has all.", soft=True)


def noise_section(page: Page, noise: StationNoise) -> None:
    """The noise of each station, the noisiest first."""
    page.heading("Noise of stations")
    rows = noise.table()
    page.numbers(
        ("station", "noise, median", "2.5%", "97.5%"),
        [[name, *(f"{value:.4g}" for value in values)] for name, *values in rows[:ROWS]],
    )
    if len(rows) > ROWS:
        page.text(f"The {ROWS} noisiest of {len(rows)} stations are shown.", soft=True)


def _when(history: History, t: float) -> str:
    when = history.when(t)
    return f"{history.time} = {when:.6g}" if isinstance(when, float) else str(when).replace("T00:00:00", "")


def seconds_of(infos: Sequence[Info]) -> dict[str, str]:
    """The median seconds of a step; of the online sampler with and without a rejuvenation of the particles."""
    with_, without = ([info.seconds for info in infos if bool(getattr(info, "rejuvenations", ())) is which]
                      for which in (True, False))  # fmt: skip
    if not with_ or not without:
        return {"seconds a step": f"{np.median([info.seconds for info in infos]):.2g}"}
    return {
        "seconds a step": f"{np.median(without):.2g}",
        f"seconds with rejuvenation, {len(with_)} steps": f"{np.median(with_):.2g}",
    }


def prior_intervals(model: Model) -> dict[str, tuple[float, float]]:
    """The central 95 % interval of the prior of every parameter that is inferred, in natural units."""
    quantiles = np.array([-1.0, 1.0]) * float(ndtri(0.975))
    found = {}
    for name, prior in model.entries():
        ends = np.asarray(prior.value(prior.loc + prior.scale * quantiles))
        found[name] = (float(ends.min()), float(ends.max()))
    return found


def _flow(model: Model) -> str:
    """How terms move, in words."""
    kernel = model.kernel
    return (", with a delay" if kernel.delayed else "") + (", with a velocity" if kernel.advected else "")


def settings_in_words(store: Store, model: Model | None) -> dict[str, Any]:
    """Model, sampler, seed and versions, for people."""
    manifest = store.manifest
    found: dict[str, Any] = {}
    if model is not None:
        terms = [f"{_kind(term.time)} in time, {_kind(term.space)} in space" for _, term in model.kernel.terms()]
        priors, known = prior_intervals(model), model.parameters(model.prior_of_z()[0])
        found["kernel"] = "; plus ".join(terms) + _flow(model)
        found["mean"] = ", ".join(model.mean_function.names) or "known"
        found["likelihood"] = _kind(model.likelihood)
        inferred = (f"{name}: {low:.3g} to {high:.3g}" for name, (low, high) in priors.items())
        found["inferred, 95 % of the prior"] = "; ".join(inferred) or "nothing"
        fixed = {name: np.ravel(values) for name, values in known.items() if name not in model.inferred}
        found["known"] = "; ".join(f"{name} = {_numbers(values)}" for name, values in fixed.items()) or "nothing"
    settings = {name: _word(text) for name, text in manifest.sampler.items() if text != "None"}
    found["sampler"] = "; ".join(f"{name}: {text}" for name, text in settings.items())
    said = store.latest().info.settings
    found["last step"] = "; ".join(f"{name}: {text}" for name, text in said.items())
    found["random key"] = " ".join(str(one) for one in np.ravel(manifest.key["data"]))
    found["versions"] = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return found


def _word(text: str) -> str:
    """A setting that is an object by the name of its class."""
    return text.strip("'").split("(")[0]


def _kind(part: object) -> str:
    return type(part).__name__


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
