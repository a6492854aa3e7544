"""The report: one self-contained page about a run."""

from seqgp.report.make import report

__all__ = ["report"]
