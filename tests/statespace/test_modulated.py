"""Seasons of scales and noises: columns of harmonics, and the amplitude."""

import numpy as np

from seqgp.base.modulated import Season


def test_columns_are_harmonics():
    t = np.array([0.0, 0.25, 0.7])
    expected = [np.cos(4 * np.pi * t), np.sin(4 * np.pi * t), np.cos(8 * np.pi * t), np.sin(8 * np.pi * t)]
    np.testing.assert_allclose(Season(0.5, 2, "season").columns(t), np.stack(expected, axis=-1), atol=1e-12)
    np.testing.assert_allclose(
        Season(0.5, 1, "season").amplitude([0.3, -0.2], t), np.exp(0.3 * expected[0] - 0.2 * expected[1])
    )
