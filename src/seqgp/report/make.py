"""From a run to a page: what was run, the latent now and over time, parameters, forecasts, diagnostics, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqgp import plots
from seqgp.base.info import ChainInfo, Info, OnlineInfo
from seqgp.base.transforms import Transform, transform_of
from seqgp.evaluate.motion import motions
from seqgp.io.errors import StoreError
from seqgp.io.files import write_atomically
from seqgp.io.ground import Ground
from seqgp.io.lattice import LatticeSurface, surfaces_of
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS
from seqgp.model import Model
from seqgp.plots.checks import Check, forecast_checks
from seqgp.plots.figures import COARSE, LATTICE, MAX_FRAMES, spread
from seqgp.plots.history import History, history_of, missing_of, stations_of
from seqgp.report.comparison import compare_forecasts
from seqgp.report.page import Page
from seqgp.report.parts import (
    noise_section,
    prior_intervals,
    seconds_of,
    settings_in_words,
    station_section,
    stations_found,
)
from seqgp.report.sentences import (
    about_dots,
    about_forecasts,
    about_latent,
    about_sampling,
    about_stations,
    for_command_line,
    verdict,
)

LARGEST = 3_000_000  # bytes of a page
FINE = 80  # points along each side of a map over a grid that was given
FEW_DRAWS = 100  # of each of the maps of the slider
STATIONS = 4  # whose series are shown
MAPS = {"Posterior mean": "mean", "Posterior standard deviation": "sd"}


class MapExtras(NamedTuple):
    """What maps are drawn over: a grid with covariates, and border lines."""

    ground: Ground | None = None
    border: Sequence[np.ndarray] = ()


PLAIN = MapExtras()


def report(source: Any, path: str | Path, model: Model | None = None, extras: MapExtras = PLAIN) -> Path:
    """Write one self-contained HTML page about a run.

    Args:
        source: a ``Run`` with a store, or a :class:`seqgp.Store`.
        path: the file to write.
        model: the model, for the forecast checks; a store knows it where it is made of ready-made parts.
        extras: what maps are drawn over.
    """
    store = source if isinstance(source, Store) else source.store
    if store is None:
        raise StoreError("report: the run is not stored; make it with seqgp.run(…, store=…)")
    text = page_of(store, model or getattr(source, "model", None), extras)
    target = Path(path)
    write_atomically(target, lambda file: file.write(text.encode()))
    return target


def page_of(store: Store, model: Model | None = None, extras: MapExtras = PLAIN) -> str:
    """The report of a run as HTML; arguments as of :func:`report`."""
    history, checks = history_of(store, model), forecast_checks(store, model)
    shown = spread(len(history.steps), MAX_FRAMES)
    cells = LATTICE if extras.ground is None else FINE  # cells without a value have edges that nothing smooths
    now = surfaces_of(store, [len(history.steps) - 1], cells, model, ground=extras.ground)
    surfaces = surfaces_of(store, shown, COARSE, model, FEW_DRAWS, extras.ground)
    maps = _Maps(next(iter(now.values()), None), surfaces, extras.border)
    frames = MAX_FRAMES
    text = _page(history, checks, store, frames, maps, model or store.model)
    while len(text.encode()) > LARGEST and frames > 1:
        frames //= 2
        text = _page(history, checks, store, frames, maps, model or store.model)
    return text


class _Maps(NamedTuple):
    """The posterior on a grid, now and at the steps of the slider, and the lines over it."""

    now: LatticeSurface | None
    surfaces: Mapping[int, LatticeSurface]
    border: Sequence[np.ndarray]


def _page(
    history: History,
    checks: Sequence[Check],
    store: Store,
    frames: int,
    maps: _Maps,
    model: Model | None,
) -> str:
    page = Page(history.title)
    draws = int(store.manifest.sampler.get("draws", "0"))
    infos = [moment.info for moment in history.steps]
    _what(page, history, draws)
    transform = transform_of(store.manifest.section("data"))
    stations = stations_found(history, transform)
    sentences = [*about_stations(stations), *about_sampling(infos, stations is not None), *about_forecasts(checks)]
    said = [*sentences, *verdict(infos, checks, sentences)]
    if store.manifest.specification is not None and store.manifest.section("data"):
        said = [sentence._replace(text=for_command_line(sentence.text)) for sentence in said]
    page.findings(said)
    if stations is not None:
        station_section(page, stations)
    noise = getattr(store.latest().state, "station_noise", None)
    if noise is not None:
        noise_section(page, noise)
    _latent(page, history, frames, maps, model)
    _series(page, history)
    _parameters(page, history, model, transform)
    if model is not None and model.kernel.moving:
        for one in motions(model, store.latest().state.parameters, store.manifest.section("data")):
            page.text(f"The pattern {one}." if not one.prefix else f"Term {one}.")
    _forecasts(page, history, checks)
    page.heading("Diagnostics")
    page.text(_about_diagnostics(infos), soft=True)
    page.figure(plots.diagnostics(history), "diagnostics over time")
    _cost(page, infos)
    page.heading("Settings")
    page.table(settings_in_words(store, model))
    versions = store.manifest.versions
    return page.html(f"seqgp {versions.get('seqgp')}, run begun {store.manifest.created}")


def _what(page: Page, history: History, draws: int) -> None:
    first, last = history.steps[0], history.steps[-1]
    places = {name for moment in history.steps for name in stations_of(moment)}
    missing, expected = missing_of(history)
    page.facts(
        {
            "steps": len(history.steps),
            f"{history.time}, first": _time(history, first.t),
            f"{history.time}, last": _time(history, last.t),
            "locations, last step": len(last.x),
            "locations, all steps": len(places),
            f"of {expected:,} data are missing": f"{missing:,}",
            "draws a step": draws,
        }
        | seconds_of([moment.info for moment in history.steps])
    )


def _latent(page: Page, history: History, frames: int, maps: _Maps, model: Model | None) -> None:
    page.heading("The latent function now")
    surface, border = maps.now, maps.border
    page.text(about_latent(history, surface is not None, model), soft=True)
    if surface is None:
        page.figure(plots.field(history, border=border), "the latent function at the last step")
    else:
        both = {name: plots.field(history, what=what, surface=surface, border=border) for name, what in MAPS.items()}
        page.figures(both)
    if len(history.steps) > 1:
        page.heading("Its evolution")
        figure = plots.evolution(history, frames, maps.surfaces, border)
        shown = len(figure.frames)
        more = "" if shown == len(history.steps) else f" ({shown} of {len(history.steps)} steps are shown)"
        page.text(f"Move the slider to go through time{more}.", soft=True)
        page.figure(figure, "the latent function over time")


def _series(page: Page, history: History) -> None:
    chosen = _stations(history)
    if len(history.steps) < 3 or not chosen:
        return
    page.heading("Some stations")
    page.text(
        "The latent at a few stations that are far from each other: the median, with bands that hold 50 % and 95 % of "
        f"the posterior{about_dots(history)}.",
        soft=True,
    )
    names = {name: name if isinstance(name, str) else ", ".join(f"{value:.4g}" for value in name) for name in chosen}
    page.figures({text: plots.station(history, name) for name, text in names.items()})


def _stations(history: History) -> list[Any]:
    """Of the stations that are seen in at least half of the steps, a few that are far from each other."""
    places: dict[Any, np.ndarray] = {}
    counts: Counter[Any] = Counter()
    for moment in history.steps:
        names = stations_of(moment)
        counts.update(list(dict.fromkeys(names)))  # in their order, so that the same run gives the same page
        places |= dict(zip(names, moment.x))
    often = [name for name, count in counts.items() if count >= len(history.steps) / 2]
    if not often:
        return []
    x = np.stack([places[name] for name in often])
    x = (x - x.mean(axis=0)) / np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), 1.0)
    chosen = [int(np.argmin((x**2).sum(axis=1)))]
    while len(chosen) < min(STATIONS, len(often)):
        distance = np.min([((x - x[i]) ** 2).sum(axis=1) for i in chosen], axis=0)
        chosen.append(int(np.argmax(distance)))
    return [often[i] for i in dict.fromkeys(chosen)]


def _parameters(page: Page, history: History, model: Model | None, transform: Transform | None) -> None:
    found = history.parameters()
    if not found:
        return
    page.heading("Parameters")
    units = "In natural units" if transform is None else f"Of the model for {transform.of(history.value)}"
    page.text(
        f"{units}: the median, with bands that hold 50 % and 95 % of the posterior"
        f"{'' if model is None else '; in grey the 95 % of the prior'}.",
        soft=True,
    )
    priors = {} if model is None else prior_intervals(model)
    info = history.steps[-1].info
    shown = ("mean", "sd", "2.5%", "50%", "97.5%")
    chains = isinstance(info, ChainInfo)
    rows = []
    for name, values in found.items():
        numbers = [f"{values[-1, STATISTICS.index(s)]:.4g}" for s in shown]
        prior = ["{:.3g} to {:.3g}".format(*priors[name]) if name in priors else ""][: len(priors)]
        mixing = [f"{info.ess.get(name, np.nan):.0f}", f"{info.rhat.get(name, np.nan):.3f}"] if chains else []
        rows.append([name, *numbers, *prior, *mixing])
    page.numbers(["now", *shown, *["prior, 95 %"][: len(priors)], *(["ESS", "R-hat"] if chains else [])], rows)
    page.figures({name: plots.parameter(history, name, priors.get(name)) for name in found})


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
    figures = {
        "Where the data fell": plots.calibration(checks),
        "Data inside their interval": plots.coverage(history, checks),
        "Scores": plots.scores(history, checks),
    }
    compared = compare_forecasts(history, checks)
    if compared is not None:
        figures["Beside forecasts that cost nothing"] = plots.compared(history, compared.crps, compared.times)
    page.figures(figures)
    if compared is not None:
        page.text(
            f"On the same {compared.data} data, of stations that were seen before: the mean CRPS (less is better), and "
            "the share inside the 95 % interval. Persistence forecasts a station's last value; the AR(1) is one for "
            "all stations.",
            soft=True,
        )
        rows = [[name, f"{compared.total[name]:.4g}", f"{compared.inside[name]:.1%}"] for name in compared.total]
        page.numbers(["forecast", "CRPS", "inside 95 %"], rows)


def _about_diagnostics(infos: Sequence[Info]) -> str:
    last = infos[-1]
    if isinstance(last, OnlineInfo):
        remark = "" if last.exact is None else last.exact.remark
        return (
            "The effective number of particles, and the log evidence of the data so far: "
            f"{last.log_evidence:.2f} ± {last.log_evidence_se:.2f}. The last step rejuvenated the particles "
            f"{len(last.rejuvenations)} times.{f' Its weights are {remark}.' if remark else ''}"
        )
    return (
        "ESS is the number of independent draws that the draws of a step are worth; R-hat compares its chains, and is "
        "close to 1 where they agree. Neither sees what earlier steps have lost: seqgp.replicate does."
    )


def _cost(page: Page, infos: Sequence[object]) -> None:
    last = infos[-1]
    if not isinstance(last, ChainInfo) or not last.updates:
        return
    rows = [
        [name, str(u.updates), f"{u.evaluations_per_update:.2f}", str(u.capped), str(u.not_positive_definite)]
        for name, u in last.updates.items()
    ]
    page.numbers(["updates of the last step", "updates", "evaluations each", "capped", "not positive definite"], rows)


def _time(history: History, t: float) -> str:
    when = history.when(t)
    return f"{when:.6g}" if isinstance(when, float) else str(when).replace("T00:00:00", "")
