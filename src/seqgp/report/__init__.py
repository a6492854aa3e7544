"""Self-contained pages: about a run, and about data before a model is chosen."""

from seqgp.report.exploration import exploration_report
from seqgp.report.make import report

__all__ = ["exploration_report", "report"]
