"""Figures of a run, for notebooks: each function returns a Plotly figure."""

from seqgp.plots.figures import (
    calibration,
    coverage,
    diagnostics,
    evolution,
    field,
    parameter,
    parameters,
    scores,
)

__all__ = ["calibration", "coverage", "diagnostics", "evolution", "field", "parameter", "parameters", "scores"]
