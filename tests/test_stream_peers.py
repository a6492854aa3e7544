"""The comparison with other libraries: seqgp has the model of their scripts, and the page says what failed."""

import numpy as np
from benchmarks.stream_peers import __main__ as comparison
from benchmarks.stream_peers.problem import simulate, some_values, space_covariance


def log_likelihood(stream, theta):
    """Of all data at once, by the dense covariance of stations and times."""
    t = np.arange(len(stream.y))
    time = np.exp(-np.abs(t[:, None] - t) / theta[0])
    covariance = np.kron(time, space_covariance(stream.x, theta)) + theta[3] ** 2 * np.eye(stream.y.size)
    y = stream.y.ravel()
    return -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])


def test_seqgp_has_the_likelihood_of_the_scripts(monkeypatch):
    monkeypatch.setattr(comparison, "PARTICLES", 16)
    monkeypatch.setattr(comparison, "VALUES", 3)
    stream = simulate(1, 4, 3)
    found = comparison.ours(stream)
    expected = [log_likelihood(stream, np.exp(theta)) for theta in some_values(3)]
    np.testing.assert_allclose(found["log_likelihood"], expected, atol=1e-6)
    text = comparison.page(
        {"seqgp": found} | {name: {"error": "no such module"} for name in comparison.SCRIPTS},
        stream,
        {"cores": 2, "cpu": "a CPU", "date": "2026-01-01", "versions": {"seqgp": "0", "jax": "0"}},
        "particles 0",
    )
    assert "`gpboost_fit` failed: no such module" in text
    assert "4 stations, 3 snapshots" in text
