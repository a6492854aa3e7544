"""Surfaces in other libraries."""

import numpy as np
import pytest

from seqgp.apps.localvol import ForwardCurve, Surface, to_quantlib

CURVE = ForwardCurve(np.array([0.5, 1.0]), 100 * np.exp([0.01, 0.02]), np.exp([-0.015, -0.03]))
SURFACE = Surface([0.1, 0.5, 0.9], [-0.3, 0.0, 0.3], [[0.3, 0.2, 0.18], [0.26, 0.21, 0.19], [0.25, 0.22, 0.2]])
STRIKES = np.linspace(80, 120, 9)


def test_quantlib_gives_back_the_volatilities():
    ql = pytest.importorskip("QuantLib")
    made = to_quantlib(SURFACE, CURVE, "2024-01-03", STRIKES)
    for T in (0.1, 0.5, 0.9):
        for strike in STRIKES:
            expected = SURFACE(T, np.log(strike / CURVE.forward(T)[0]))
            assert made.localVol(T, strike) == pytest.approx(float(expected), rel=1e-9)
    assert made.referenceDate() == ql.Date(3, 1, 2024)


def test_strikes_must_increase():
    pytest.importorskip("QuantLib")
    with pytest.raises(ValueError, match="must increase"):
        to_quantlib(SURFACE, CURVE, "2024-01-03", STRIKES[::-1])
