"""The correction of EP by paths in the online sampler: evidence, posterior, what it says of itself, and the store."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import logsumexp

import seqgp
from oracles import importance
from seqgp.samplers.online import exact

TIMES = np.array([0.0, 0.5, 1.2, 1.6])
COUNTS = np.array([0.0, 3.0, 0.0, 2.0])
MEAN = -0.7


def model(time=1.0, scale=1.0, likelihood=None, mean=MEAN):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern12(time), space=seqgp.kernels.Matern12(1.0), scale=scale)
    return seqgp.Model(kernel=kernel, mean=mean, likelihood=likelihood or seqgp.likelihoods.Poisson())


def snapshots(t, y):
    return [seqgp.Snapshot(float(a), np.zeros((1, 1)), np.array([b])) for a, b in zip(t, y)]


def stepped(sampler, data, seed=0):
    state, info = sampler.init(jax.random.key(seed), data[0])
    for i, snapshot in enumerate(data[1:], start=1):
        state, info = sampler.step(jax.random.fold_in(jax.random.key(seed), i), state, snapshot)
    return state, info


def quadrature():
    """Log evidence of four counts, and mean and variance of the latent function at the last time."""
    line = np.linspace(-5, 5, 41)
    path = np.stack(np.meshgrid(*[line] * 4, indexing="ij"), axis=-1)
    covariance = np.exp(-np.abs(TIMES[:, None] - TIMES[None, :]))
    logs = stats.multivariate_normal(np.zeros(4), covariance).logpdf(path)
    logs = logs + stats.poisson.logpmf(COUNTS, np.exp(path + MEAN)).sum(axis=-1)
    mass = np.exp(logs) * (line[1] - line[0]) ** 4
    last = mass.sum(axis=(0, 1, 2)) / mass.sum()
    return np.log(mass.sum()), last @ line + MEAN, last @ line**2 - (last @ line) ** 2


def test_evidence_and_latent_of_four_counts_by_quadrature():
    """Within three Monte Carlo errors, which tell the evidence from that of EP; the latent within four."""
    truth, mean, variance = quadrature()
    state, info = stepped(seqgp.OnlineSampler(model(), particles=1024, draws=4000, paths=16), snapshots(TIMES, COUNTS))
    _, plain = stepped(seqgp.OnlineSampler(model(), particles=16, draws=16, paths=0), snapshots(TIMES, COUNTS))
    assert abs(info.log_evidence - truth) < 3 * info.log_evidence_se
    assert abs(plain.log_evidence - truth) > 3 * info.log_evidence_se
    latent = np.asarray(state.latent)[:, 0]
    assert abs(latent.mean() - mean) < 4 * np.sqrt(variance / 4000)
    assert abs(latent.var() / variance - 1) < 4 * np.sqrt(2 / 4000)
    assert info.exact
    assert (info.exact.step, info.exact.paths) == (4, 16)
    assert not plain.exact
    assert "paths=0" in plain.exact.why


def bootstrap_evidences(rng, t, y, lengthscales, scales, particles):
    """``log p(y | parameters)`` of many values at once by the particle filter of Gordon et al. (1993)."""
    f, total = np.zeros((len(scales), particles)), np.zeros(len(scales))
    for i, dt in enumerate(np.diff(t, prepend=t[0])):
        decay = np.exp(-dt / lengthscales) if i else np.zeros(len(scales))
        f = decay[:, None] * f + (scales * np.sqrt(1 - decay**2))[:, None] * rng.standard_normal(f.shape)
        logs = stats.poisson.logpmf(y[i], np.exp(f + MEAN))
        total += logsumexp(logs, axis=1) - np.log(particles)
        share = np.cumsum(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)), axis=1)
        operator = (np.arange(particles) + rng.random((len(f), 1))) / particles
        index = np.stack([np.searchsorted(a, b) for a, b in zip(share, operator)])
        f = np.take_along_axis(f, np.minimum(index, particles - 1), axis=1)
    return total


def test_posterior_of_thirty_counts_by_importance_sampling():
    """Against values drawn from the prior, each with a long particle filter."""
    rng = np.random.default_rng(4)
    t = np.arange(30) * 0.5
    root = np.linalg.cholesky(1.5**2 * np.exp(-np.abs(t[:, None] - t[None, :]) / 2.0))
    y = rng.poisson(np.exp(root @ rng.standard_normal(30) + MEAN)).astype(float)
    priors = {"time": ("lognormal", 0.5, 0.5), "scale": ("lognormal", 0.0, 0.5)}
    z = rng.standard_normal((1500, 2))
    lengthscales, scales = (importance.value(prior, z[:, i]) for i, prior in enumerate(priors.values()))
    logs = bootstrap_evidences(rng, t, y, lengthscales, scales, 1000)
    weights = np.exp(logs - logsumexp(logs))
    truth = logsumexp(logs) - np.log(len(logs))
    truth_error = np.sqrt(np.sum(weights**2) - 1 / len(z))
    inferred = model(dist.LogNormal(0.5, 0.5), dist.LogNormal(0.0, 0.5))
    sampler = seqgp.OnlineSampler(inferred, particles=256, draws=2000, paths="auto")
    done = seqgp.run(sampler, snapshots(t, y), jax.random.key(0), forecast=False)
    info = done.infos[-1]
    assert info.exact
    assert info.exact.step == 30
    assert abs(info.log_evidence - truth) < 4 * np.hypot(truth_error, info.log_evidence_se)
    for name, values in (("time.lengthscale", lengthscales), ("scale", scales)):
        found, log = np.log(np.asarray(done.state.parameters[name])), np.log(values)
        mean = weights @ log
        sd = np.sqrt(weights @ (log - mean) ** 2)
        error = np.sqrt(np.sum(weights**2) + 1 / info.ess)
        assert abs(found.mean() - mean) < 4 * error * sd
        assert abs(found.std() / sd - 1) < 4 * error


def small(paths, **changes):
    return seqgp.OnlineSampler(model(dist.LogNormal(0.5, 0.5), **changes), particles=32, draws=20, paths=paths)


def test_says_which_steps_are_corrected():
    data, exacts = snapshots(np.arange(9) * 0.5, [0.0, 2, 1, 0, 0, 1, 3, 1, 1]), []
    sampler = small(8)
    state, info = sampler.init(jax.random.key(0), data[0])
    for i, snapshot in enumerate(data[1:], start=1):
        exacts.append(info.exact)
        state, info = sampler.step(jax.random.key(i), state, snapshot)
    assert [one.corrected for one in exacts[:7]] == [True] * 7
    between = exacts[7]
    if not between:
        assert between.step == 7
        assert "since step 7" in between.why
        assert not between.corrected
    assert info.exact.step in (8, 9)
    refreshed, now = sampler.refresh(jax.random.key(99), state)
    assert now.exact
    assert now.exact.step == 9
    assert now.exact.noise > 0
    assert refreshed.step == state.step
    assert refreshed.t == state.t


def test_resumes_from_a_store_bit_for_bit(tmp_path):
    data = snapshots(np.arange(9) * 0.5, [0.0, 2, 1, 0, 0, 1, 3, 1, 1])
    once = seqgp.run(small(8), data, jax.random.key(3), store=tmp_path / "once", forecast=False)
    seqgp.run(small(8), data[:8], jax.random.key(3), store=tmp_path / "twice", forecast=False)
    twice = seqgp.run(small(8), data, store=tmp_path / "twice", forecast=False)
    for a, b in zip(seqgp.Store(tmp_path / "once"), seqgp.Store(tmp_path / "twice")):
        np.testing.assert_array_equal(a.state.latent, b.state.latent)
        np.testing.assert_array_equal(a.state.particles.log_weights(), b.state.particles.log_weights())
        assert a.info.exact == b.info.exact
    np.testing.assert_array_equal(once.state.z, twice.state.z)
    assert once.infos[-1].exact.corrected
    assert once.infos[-1].log_evidence == twice.infos[-1].log_evidence


def test_a_run_that_was_begun_without_paths_goes_on_so(tmp_path):
    """As all runs were before 0.3: the default does not change them, and says so."""
    data, key = snapshots(np.arange(4) * 0.5, [0.0, 2, 1, 0]), jax.random.key(3)
    for folder in ("whole", "default"):
        seqgp.run(small(0), data[:2], key, store=tmp_path / folder, forecast=False)
    whole = seqgp.run(small(0), data, store=tmp_path / "whole", forecast=False)
    with pytest.warns(UserWarning, match="begun without paths=, and goes on so"):
        default = seqgp.run(small("auto"), data, store=tmp_path / "default", forecast=False)
    np.testing.assert_array_equal(whole.state.latent, default.state.latent)
    assert "paths=0" in default.infos[-1].exact.why


def test_the_default_corrects_where_it_has_an_effect():
    assert seqgp.OnlineSampler(model()).paths == "auto"
    for of, settings in (
        (model(likelihood=seqgp.likelihoods.Gaussian(0.3)), {}),
        (model(), {"forget": 0.9}),
        (model(likelihood=seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(f, 1.0))), {}),
    ):
        assert seqgp.OnlineSampler(of, **settings).paths == 0


def test_without_paths_a_state_goes_on_without_correction():
    data = snapshots(np.arange(4) * 0.5, [0.0, 2, 1, 0])
    state, _ = stepped(small(8), data[:3])
    after, info = small(0).step(jax.random.key(7), state, data[3])
    assert after.correction is None
    assert not info.exact
    plain, _ = small(0).refresh(jax.random.key(8), after)
    assert plain is after


@pytest.mark.parametrize("likelihood", [seqgp.likelihoods.Gaussian(0.3)])
def test_without_effect_on_gaussian_data(likelihood):
    data = snapshots(np.arange(3) * 0.5, [0.1, 0.4, -0.2])
    with_paths, info = stepped(small(8, likelihood=likelihood), data)
    without, _ = stepped(small(0, likelihood=likelihood), data)
    np.testing.assert_array_equal(with_paths.latent, without.latent)
    assert info.exact
    assert "Gaussian" in info.exact.why


def test_says_why_not():
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=8, paths=8, forget=0.9)
    _, info = sampler.init(jax.random.key(0), snapshots(TIMES, COUNTS)[0])
    assert not info.exact
    assert "forget" in info.exact.why


@pytest.mark.parametrize("paths", [1, -1, True, 2.5, "all", 10**6])
def test_refuses_other_numbers_of_paths(paths):
    with pytest.raises(seqgp.SamplerError, match=r"paths = .*'auto'"):
        seqgp.OnlineSampler(model(), paths=paths)


def test_stations_that_join_and_gaps():
    """A station joins, another misses a datum: as if it had been there from the start without data."""
    x, later = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [2.5]])
    y = [[0.0, 2.0], [1.0, np.nan], [0.0, 1.0, 2.0]]
    joined = [seqgp.Snapshot(0.5 * i, later if i == 2 else x, np.array(y[i])) for i in range(3)]
    whole = [seqgp.Snapshot(0.5 * i, later, np.array([*y[i], np.nan][:3])) for i in range(3)]
    found = [
        stepped(seqgp.OnlineSampler(model(), particles=512, draws=16, paths=16), data)[1] for data in (joined, whole)
    ]
    error = np.hypot(*(info.log_evidence_se for info in found))
    assert abs(found[0].log_evidence - found[1].log_evidence) < 4 * error
    assert error < 0.02


def test_number_of_paths_follows_the_noise():
    assert exact.whole_numbers_of_paths(0.2, 8) == 8
    assert exact.whole_numbers_of_paths(0.01, 16) == 16
    assert exact.whole_numbers_of_paths(0.9, 16) == 64
    assert exact.whole_numbers_of_paths(100.0, 16) == 512
    assert exact.whole_numbers_of_paths(0.8, 16) == 64
    assert exact.whole_numbers_of_paths(0.01, 64) == 64
    assert exact.whole_numbers_of_paths(np.inf, 16) == 512
