"""The command ``serve``: the runs of a folder in a browser."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from seqgp.cli.common import Debug, Json, Mistake, command, show, shown
from seqgp.report.server import Server, is_local
from seqgp.runtime import stopping


@command(stopped="nothing was written")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="RUNS", help="A folder with runs, or a single run.")],
    host: Annotated[str, typer.Option(help="The address to listen at; other machines cannot reach the default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8765,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the runs of a folder in a browser, read only, until stopped (Ctrl-C).

    Pages: all runs, and the report of each; they follow the runs as they grow. As JSON: `/api/summary`,
    `/api/summary?run=NAME` and `/api/predict?run=NAME&x=0.1,0.2&x=0.3,0.4&time=TIME`.
    """
    if not folder.is_dir():
        raise Mistake(f"{folder}: not a folder; give one with runs")
    try:
        server = Server(folder, host, port)
    except (OSError, OverflowError) as error:
        raise Mistake(f"{host}:{port}: cannot listen there ({error}); choose another --host or --port") from error
    address = f"http://{host}:{server.server_address[1]}/"
    open_to_all = "" if is_local(host) else "; anyone who can reach this address can read the runs"
    said = f"{shown(folder)}: {address}{open_to_all} (Ctrl-C to stop)"
    show({"runs": folder, "address": address}, json, lambda out: out.print(said, markup=False))
    listening = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    listening.start()
    try:
        while True:
            stopping.pause(3600)
    except KeyboardInterrupt as error:
        show({"stopped": True}, json, lambda out: out.print("stopped", markup=False))
        raise typer.Exit(128 + getattr(error, "number", signal.SIGINT)) from None
    finally:
        server.shutdown()
        server.server_close()
