"""Figures of a run, for notebooks: each function returns a Plotly figure (``exploration`` several, by title)."""

from seqgp.base.errors import extra

with extra("plots"):
    import plotly as _  # noqa: F401

from seqgp.plots.exploration import exploration
from seqgp.plots.figures import (
    calibration,
    compared,
    coverage,
    diagnostics,
    evolution,
    field,
    parameter,
    parameters,
    scores,
    station,
)

__all__ = [
    "calibration",
    "compared",
    "coverage",
    "diagnostics",
    "evolution",
    "exploration",
    "field",
    "parameter",
    "parameters",
    "scores",
    "station",
]
