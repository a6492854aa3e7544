"""Options of commands that run on many processes, and the client of their cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from seqgp.base.errors import extra
from seqgp.cli.common import Mistake
from seqgp.fleets.cluster import local_cluster

Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster; TLS is set in Dask's configuration."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=1024, help="Processes of this machine; one run each at a time.")
]


@contextlib.contextmanager
def client_of(scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """A client of the cluster that was asked for; none for this process."""
    if scheduler is None and workers is None:
        yield None
        return
    if scheduler is not None and workers is not None:
        raise Mistake("--scheduler is for a cluster that is there, --workers for processes of this machine: choose one")
    with extra("fleet"):
        from distributed import Client
    with contextlib.ExitStack() as stack:
        if workers is not None:
            yield stack.enter_context(Client(stack.enter_context(local_cluster(workers))))
            return
        try:
            client = Client(scheduler)
        except (OSError, ValueError, TypeError) as error:  # nobody answers, no such address, no certificate
            why = " ".join(str(error).split())
            raise Mistake(f"--scheduler {scheduler}: cannot be reached ({why}); is it running there?") from error
        yield stack.enter_context(client)
