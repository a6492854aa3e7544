"""Figures of a run, for notebooks: each function returns a Plotly figure."""

from seqgp.models.errors import extra

with extra("plots"):
    import plotly as _  # noqa: F401

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
