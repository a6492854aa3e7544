"""The commands of ``seqgp``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Annotated

import typer
from typer.main import get_command

from seqgp.cli.common import FINE, INTERRUPTED, MISTAKE, UNREAD, end_at_once
from seqgp.cli.lazy import STYLE, Commands

app = typer.Typer(
    name="seqgp",
    help="Bayesian inference for latent Gaussian processes that keeps up with your data.\n\n"
    "New here? `seqgp demo` runs an example and writes a report. For your own table: `seqgp new my.toml`, edit it, "
    "`seqgp fit my.toml`, `seqgp report RUN -o report.html`.",
    epilog="Exit codes: 0 fine, 1 a fault of seqgp, 2 a mistake in what was given, 3 a damaged run.",
    no_args_is_help=True,
    cls=Commands,
    **STYLE,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"seqgp {version('seqgp')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: a mistake ends with one line and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    quiet = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, end_at_once) if quiet else None
    try:
        code = _run(given or ["--help"])
    except BrokenPipeError:
        _let_go()
        code = UNREAD
    finally:
        if quiet:
            signal.signal(signal.SIGINT, before or signal.default_int_handler)
    sys.exit(code)


def _run(given: list[str]) -> int:
    """The exit code of a command; where nobody reads what it says, a ``BrokenPipeError``."""
    try:
        code = get_command(app).main(given, prog_name="seqgp", standalone_mode=False)
        print(end="", flush=True)
        return code if isinstance(code, int) else FINE
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # which Rich ends the process on by itself
            raise end.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except Exception as error:
        message = getattr(error, "format_message", None)  # of the command line's own parser
        unwritten = isinstance(error, OSError) and error.filename is None  # what was said found no room
        if message is None and not unwritten:
            raise
        context = getattr(error, "ctx", None)
        how = f" (see `{context.command_path} --help`)" if context is not None else ""
        text = f"standard output: {error}" if message is None else message()
        print(f"seqgp: {' '.join(text.split())}{how}", file=sys.stderr)
        return MISTAKE


def _let_go() -> None:
    """What is left in the buffers goes nowhere: at the end of the process Python would complain of it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
