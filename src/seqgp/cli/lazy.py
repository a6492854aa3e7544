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

GROUPS = {  # of `seqgp --help`: each command, the module that it is in, and the first line of its docstring
    "Begin": {
        "demo": ("demo", "Run an example, from a table to a finished report: the quickest way to see what seqgp does."),
        "new": (
            "exploring",
            "Write a commented configuration to begin with; with `--table`, one with priors that suit the data.",
        ),
        "explore": ("exploring", "Show what the data of stations say before you choose a model, and suggest a model."),
    },
    "Sample": {
        "fit": ("fitting", "Sample after each time of a table, and keep the draws in a run."),
        "update": ("fitting", "Add later times to a run; rows that are late or corrected revise its past."),
        "watch": ("watching", "Add tables to a run as they arrive in a folder, until stopped (Ctrl-C)."),
        "fleet": ("fleet", "Run many streams from one configuration: `seqgp fleet fleet.toml`."),
        "localvol": (
            "localvol",
            "Infer local volatility from option quotes, day after day: surfaces, smiles and errors.",
        ),
    },
    "Use a run": {
        "summary": ("reading", "Show what a run holds: times, parameters now, diagnostics."),
        "predict": ("reading", "Predict the latent function and new data at any place, now, later or in the past."),
        "report": ("reporting", "Write a page of HTML about a run, with maps, forecasts and diagnostics."),
        "serve": ("serving", "Show the runs of a folder in a browser, read only, until stopped (Ctrl-C)."),
        "stations": ("stations", "Show which stations of a run are at fault, since when and by how much."),
        "log": (
            "revisions",
            "List the late and corrected data that revised the past of a run, with what they replaced.",
        ),
        "export": ("exporting", "Write a run for other tools: NetCDF (CF conventions), Zarr (ArviZ), Parquet or CSV."),
    },
    "Judge models": {
        "compare": (
            "comparing",
            "Compare runs over the same data by evidence and forecasts, and say where these disagree.",
        ),
        "score": (
            "scoring",
            "Score predictions of held-out data, filtered, ahead and smoothed, beside persistence, AR(1) and kriging.",
        ),
        "crossvalidate": (
            "crossvalidating",
            "Leave out stations or blocks of time in turn, and score predictions of them, beside simple forecasts.",
        ),
    },
    "Something is wrong": {
        "check": ("reading", "Read every file of a run, and name those that are broken."),
        "support": ("support", "Collect versions, model and last step of a run, for a report that something is wrong."),
    },
}
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
STYLE: dict[str, Any] = {"add_completion": False, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False}


class Commands(TyperGroup):
    """All commands, by name and first line."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {
            name: Deferred(name=name, help=first, rich_help_panel=title)
            for title, group in GROUPS.items()
            for name, (_, first) in group.items()
        }


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
