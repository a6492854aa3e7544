"""Self-contained pages: about a run, and about data before a model is chosen."""

from seqgp.report.exploration import exploration_report
from seqgp.report.make import MapExtras, report

__all__ = ["MapExtras", "exploration_report", "report"]
