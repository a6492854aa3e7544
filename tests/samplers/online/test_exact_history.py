"""The correction by paths in a bounded history: exact given the Gaussian that stands for data that are summed up."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import gammaln

import seqgp
from oracles.sites import sites_at_centre
from seqgp.runtime import engine
from seqgp.samplers.online import exact
from seqgp.samplers.online.history import build_timeline
from seqgp.statespace import filter_history, paths
from seqgp.statespace.model import StateSpaceModel

TIMES, COUNTS, MEAN, FIRST = np.array([0.0, 0.5, 0.9, 1.6, 2.0]), np.array([0.0, 5.0, 2.0, 0.0, 3.0]), -0.4, 3


def model(time=1.0, scale=1.5):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(time), seqgp.kernels.Matern12(1.0), scale)
    return seqgp.Model(kernel, seqgp.likelihoods.Poisson(), mean=MEAN)


def snapshots(t, y):
    return [seqgp.Snapshot(float(a), np.zeros((1, 1)), np.array([b])) for a, b in zip(t, y)]


def laid(count=5):
    return build_timeline(StateSpaceModel(model()), "auto", snapshots(TIMES[:count], COUNTS[:count]), (None,) * count)


def given_sites(tau, nu):
    """``log p(y)`` of the last counts, given sites in place of the first, by a product rule."""
    covariance = 1.5**2 * np.exp(-np.abs(TIMES[:, None] - TIMES))
    known = np.linalg.solve(covariance[:FIRST, :FIRST] + np.diag(1 / tau), covariance[:FIRST, FIRST:]).T
    mean = MEAN + known @ (nu / tau - MEAN)
    root = np.linalg.cholesky(covariance[FIRST:, FIRST:] - known @ covariance[:FIRST, FIRST:])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    white = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    f = mean + white @ root.T
    logs = (COUNTS[FIRST:] * f - np.exp(f) - gammaln(COUNTS[FIRST:] + 1)).sum(1)
    return np.log(np.outer(weights, weights).ravel() @ np.exp(logs) / weights.sum() ** 2)


def estimated():
    """The sites of the first counts, and estimates of the evidence of the others given these."""
    history = laid()
    shared, _ = exact.shared_history(history, np.zeros(0), FIRST)
    tau, nu = (np.asarray(part)[:FIRST, 0] for part in sites_at_centre(shared))
    found = exact.evaluate(history, shared, np.zeros((512, 0)), 16, np.random.default_rng(0))
    return tau, nu, found.log_evidence + found.log_increment


def z_score(estimates, truth):
    ratio = np.exp(estimates - truth)
    return (ratio.mean() - 1) / (ratio.std() / np.sqrt(len(ratio)))


def test_evidence_of_the_last_counts_given_the_sites_of_the_first():
    """Within four standard errors of quadrature; the sites are those of EP without what follows."""
    tau, nu, estimates = estimated()
    assert abs(z_score(estimates, given_sites(tau, nu))) < 4
    assert estimates.std() < 0.2
    alone, _ = exact.shared_history(laid(FIRST), np.zeros(0))
    np.testing.assert_allclose(tau, alone.sites.tau[:FIRST, 0], atol=2e-3)
    np.testing.assert_allclose(nu, alone.sites.nu[:FIRST, 0], atol=2e-3)


def test_mutants_are_found_out(monkeypatch):
    """Weights of data that sites stand for; and sites of the first counts that the last have a say in."""
    tau, nu, _ = estimated()
    truth = given_sites(tau, nu)
    segmented = paths._segmented
    monkeypatch.setattr(paths, "_segmented", lambda h, s, n, first: segmented(h, s, n, 0))
    engine.forget()
    assert abs(z_score(estimated()[2], truth)) > 10
    monkeypatch.undo()
    in_order = filter_history.in_order
    for place in (filter_history, exact):
        monkeypatch.setattr(place, "in_order", lambda h, s, revised, first: in_order(h, s, revised, None))
    engine.forget()
    assert np.abs(estimated()[0] - tau).max() > 0.02


def counts(steps):
    rng = np.random.default_rng(3)
    f = np.linalg.cholesky(1.5**2 * np.exp(-np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) / 2.0))
    return snapshots(np.arange(steps), rng.poisson(np.exp(f @ rng.standard_normal(steps) + MEAN)).astype(float))


def ran(data, **settings):
    inferred = model(dist.LogNormal(0.5, 0.5), dist.LogNormal(0.0, 0.5))
    sampler, state, info = seqgp.OnlineSampler(inferred, draws=20, paths=8, **settings), None, None
    for i, snapshot in enumerate(data):
        key = jax.random.fold_in(jax.random.key(0), i)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
    return sampler, state, info


def test_a_bounded_history_ends_near_the_whole_one():
    found = {}
    data = counts(45)
    for history in (None, 10):
        sampler, state, info = ran(data, particles=128, history=history)
        state, info = sampler.refresh(jax.random.key(9), state)
        weights = state.particles.weights()
        mean = weights @ state.particles.z
        found[history] = mean, np.sqrt(weights @ (state.particles.z - mean) ** 2), info.log_evidence
        assert bool(info.exact) == (history is None)
        assert info.exact.step == 45
        assert ("Gaussians of the parameters" in info.exact.why) == (history is not None)
    assert np.abs((found[10][0] - found[None][0]) / found[None][1]).max() < 0.5
    assert found[10][2] == pytest.approx(found[None][2], abs=1.0)


def test_a_bounded_history_is_taken_up_again_bit_for_bit():
    data = counts(34)
    sampler, state, _ = ran(data[:-1], particles=16, history=10)
    assert state.memory is not None
    again = state.packed().unpacked(lambda count: [(one, None) for one in data[33 - count : 33]])
    one, other = (sampler.step(jax.random.key(5), s, data[-1])[0] for s in (state, again))
    np.testing.assert_array_equal(one.latent, other.latent)
    assert np.isfinite(one.particles.log_weights().max())
    past = seqgp.smooth(jax.random.key(6), sampler, one, [data[-12].t, data[-1].t])
    assert np.isfinite(past.latent[0]).all()
