"""Commands that are imported when they are run: ``seqgp --help`` need not wait for JAX."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = {  # where each is, and the first line of its docstring
    "demo": ("demo", "Run an embedded example, from a table to a finished report."),
    "new": (
        "exploring",
        "Write a commented configuration to begin with; with --table, one with priors that suit the data.",
    ),
    "explore": (
        "exploring",
        "Show what the data of stations say before a model is chosen, on a page, and suggest a model.",
    ),
    "fit": ("fitting", "Sample after each time of a table, and keep the draws in a run."),
    "update": ("fitting", "Add one or more later times to a run; rows that are late or corrected revise its past."),
    "watch": (
        "watching",
        "Take new tables as they arrive in a folder, until stopped by a signal (Ctrl-C, or SIGTERM).",
    ),
    "log": ("revisions", "List the late and corrected data that revised the past of a run, with what they replaced."),
    "predict": (
        "reading",
        "Predict latent and data at new points, now, later or in the past: mean, standard deviation and quantiles.",
    ),
    "compare": ("comparing", "Compare runs over the same data: evidence and forecasts, and where these disagree."),
    "score": (
        "scoring",
        "Score predictions of held-out data, filtered, ahead and smoothed, beside persistence, AR(1) and kriging.",
    ),
    "crossvalidate": (
        "crossvalidating",
        "Leave out stations or blocks of time in turn, and score predictions of them, beside simple forecasts.",
    ),
    "summary": ("reading", "Show what a run holds: times, parameters now, diagnostics."),
    "stations": ("stations", "Show what the monitor says of the stations of a run: faults, scores, readings."),
    "export": (
        "exporting",
        "Write a run for other tools: NetCDF (CF conventions), Zarr (ArviZ), or a flat table, Parquet or CSV.",
    ),
    "check": ("reading", "Read every file of a run, and name those that are broken."),
    "support": ("support", "Collect versions, model and last step of a run, for a report that something is wrong."),
    "report": ("reporting", "Write one self-contained HTML page about a run."),
    "serve": ("serving", "Show the runs of a folder in a browser, read only, until stopped by a signal."),
    "fleet": ("fleet", "Run many streams from one configuration: `seqgp fleet fleet.toml`."),
    "localvol": (
        "localvol",
        "Infer local volatility from option quotes, day after day: surfaces, smiles and errors, as tables and figures.",
    ),
}
STYLE: dict[str, Any] = {"add_completion": False, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False}


class Commands(TyperGroup):
    """All commands, by name and first line."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {name: Deferred(name=name, help=first) for name, (_, first) in COMMANDS.items()}


class Deferred(TyperCommand):
    """A command of which only name and first line are known until it is run, or asked for its own help."""

    def make_context(self, info_name: str | None, args: list[str], parent: object = None, **extra: object) -> Any:
        """The context of the command itself, which runs in this one's place."""
        assert self.name is not None
        return loaded(self.name).make_context(info_name, args, parent, **extra)


def loaded(name: str) -> Any:
    """The command itself."""
    found = getattr(_imported(f"seqgp.cli.{COMMANDS[name][0]}"), name)
    if isinstance(found, typer.Typer):  # of several commands
        return get_command(found)
    app = typer.Typer(**STYLE)
    app.command(name=name)(found)
    return get_command(app)


def _imported(name: str) -> ModuleType:
    """A module, set apart from garbage with all that it needs: looking through it took a fifth of a nightly update."""
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
