"""The command line: ``seqgp --help``."""

from __future__ import annotations

import sys

from seqgp.base.errors import MissingExtra, extra


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, which is an optional part: without its packages it says what to install."""
    try:
        with extra("cli"):
            from seqgp.cli.application import main as run
    except MissingExtra as error:
        print(f"seqgp: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # in the first moments, before anyone listens
        sys.exit(130)
    run(arguments)


__all__ = ["main"]
