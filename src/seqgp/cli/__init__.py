"""The command line: ``seqgp --help``."""

from seqgp.cli.main import app, main

__all__ = ["app", "main"]
