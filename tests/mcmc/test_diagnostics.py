"""Diagnostics of many quantities at once against ArviZ, one at a time."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import ndtri
from scipy.stats import rankdata

from seqgp.base.remarks import parse
from seqgp.mcmc.diagnostics import TAILS, diagnose, least_ess, rank_normalised, remarks, rhat_limit

NAMES = ["a", "b", "c", "d"]


def autoregressive(chains, n, seed=0):
    """Four quantities, the slower the later; the last also wanders in its spread."""
    rng = np.random.default_rng(seed)
    memory = np.array([0.0, 0.5, 0.9, 0.3])
    values = np.zeros((chains, n, 4))
    for t in range(1, n):
        values[:, t] = memory * values[:, t - 1] + rng.normal(size=(chains, 4))
    values[..., 3] *= np.linspace(0.2, 2.0, n)
    return values


@pytest.mark.parametrize(("chains", "n"), [(4, 250), (2, 501), (1, 1000)])
def test_as_arviz_has_them(chains, n):
    values = autoregressive(chains, n)
    latent = np.random.default_rng(1).normal(size=(chains, n, 3))
    rhat, _, bulk, tail = diagnose(values, latent, NAMES)
    both = np.concatenate([values, latent], axis=-1)
    axes = {"chain_axis": 0, "draw_axis": 1}
    expected = array_stats.ess(both, method="bulk", **axes)
    np.testing.assert_allclose(list(bulk.values()), [*expected[:4], expected[4:].min()], rtol=0.02)
    expected = array_stats.ess(both, method="tail", prob=TAILS, **axes)
    np.testing.assert_allclose(list(tail.values()), [*expected[:4], expected[4:].min()], rtol=0.04)
    if chains > 1:  # ArviZ compares chains only
        expected = array_stats.rhat(both, **axes)
        np.testing.assert_allclose(list(rhat.values()), [*expected[:4], expected[4:].max()], rtol=1e-6)


def test_a_single_chain_that_wanders_has_a_large_rhat():
    values = autoregressive(1, 400)
    values[..., 0] += np.linspace(0, 5, 400)
    rhat, *_ = diagnose(values, values[..., :1], NAMES)
    assert rhat["a"] > 1.5
    assert rhat["b"] < 1.05


def test_what_does_not_vary_has_all_its_draws():
    values = np.zeros((2, 50, 1))
    rhat, _, bulk, tail = diagnose(values, values, ["a"])
    assert np.isnan(rhat["a"])
    assert bulk["a"] == tail["latent"] == 100


def test_too_few_draws_have_no_diagnostics():
    values = np.zeros((2, 3, 1))
    assert all(np.isnan(found["latent"]) for found in diagnose(values, values, ["a"]))


def found_in(values):
    """The kinds of remarks on draws of eight quantities, the last three as the latent."""
    chains, n, _ = values.shape
    names = [f"q{i}" for i in range(5)]
    found = diagnose(values[..., :5], values[..., 5:], names)
    return {parse(text).kind for text in remarks({}, found, chains * n, 0, 1)}


@pytest.mark.parametrize(
    ("chains", "n", "memory"), [(4, 250, 0.0), (2, 100, 0.3), (16, 62, 0.6), (4, 250, 0.7), (2, 200, 0.5)]
)
def test_chains_that_agree_raise_no_alarm(chains, n, memory):
    """Stationary chains of one distribution: alarms are rarer than one in a thousand by design.

    200 sets of draws: more than two false alarms have a probability below 0.002.
    """
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        values = rng.normal(size=(chains, n, 8))
        for t in range(1, n):
            values[:, t] = memory * values[:, t - 1] + np.sqrt(1 - memory**2) * values[:, t]
        alarms += bool(found_in(values))
    assert alarms <= 2


def test_a_chain_elsewhere_raises_one():
    values = np.random.default_rng(1).normal(size=(4, 250, 8))
    values[0, :, 1] += 1.0  # one chain of four is one sd off, in one quantity
    assert found_in(values) == {"chains disagree"}


def test_chains_that_hardly_move_raise_one():
    steps = np.random.default_rng(2).normal(size=(4, 250, 8))
    assert found_in(np.cumsum(steps, axis=1)) == {"slow mixing"}


def test_thresholds_follow_the_number_of_draws():
    assert least_ess(1000) == 25
    assert least_ess(80) == 5
    limits = rhat_limit(np.array([100.0, 1000.0, 10_000.0]), 8)
    assert limits[0] > 1.1 > limits[1] > limits[2] > 1.0


@pytest.mark.parametrize("n", [4, 5, 10])
def test_a_few_draws_a_chain_raise_neither_alarm_nor_error(n):
    rng = np.random.default_rng(n)
    with np.errstate(all="raise"):
        alarms = sum("chains disagree" in found_in(rng.normal(size=(2, n, 8))) for _ in range(100))
    assert alarms <= 2


def test_effective_sizes_of_well_mixed_chains_are_positive_and_bounded():
    """Independent draws, few of them: the estimate of the autocorrelation time is often negative (seed fixed)."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        z = rng.normal(size=(4, 10, 3))
        _, _, bulk, tail = diagnose(z, z[..., :1], ["a", "b", "c"])
        for found in (*bulk.values(), *tail.values()):
            assert 0 < found <= 40 * np.log10(40) + 1e-9
    alternating = np.where(np.arange(100) % 2, 1.0, -1.0)[None, :, None] * (1 + 0.01 * rng.random((4, 100, 1)))
    _, _, bulk, _ = diagnose(alternating, alternating, ["a"])
    assert bulk["a"] > 0


def test_ranks_of_equal_values_are_averaged():
    values = np.random.default_rng(0).integers(0, 20, size=(2, 50, 3)).astype(float)
    flat = values.reshape(-1, 3)
    expected = ndtri((rankdata(flat, axis=0) - 3 / 8) / (len(flat) + 1 / 4))
    np.testing.assert_allclose(rank_normalised(values).reshape(-1, 3), expected, rtol=1e-12)
