"""Seasons in scale and noise: each filter is the Gaussian process ``a(t) g(t, x)``, by dense algebra in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp import kernels, likelihoods, means
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.model import StateSpaceModel

PERIOD = 3.0
SCALE, NOISE = [0.4, -0.3, 0.1, 0.2], [-0.5, 0.6]
SLOW, TREND = 0.7, 0.3
RNG = np.random.default_rng(5)
TIMES = np.cumsum(RNG.uniform(0.2, 0.9, 8))
X = RNG.uniform(0, 3, (7, 2))
NEW = RNG.uniform(0, 3, (3, 2))


def season(weights, t, period=PERIOD):
    order = np.arange(1, len(weights) // 2 + 1)
    angle = 2 * np.pi * np.multiply.outer(t, order) / period
    return np.exp(np.stack([np.cos(angle), np.sin(angle)], -1).reshape(*np.shape(t), -1) @ np.array(weights))


def matern32(distance, lengthscale):
    s = np.sqrt(3) * distance / lengthscale
    return (1 + s) * np.exp(-s)


def covariance(t, x, t2, x2, terms=2, unit=1.0):
    """Of the latent: a term whose scale has a season, and (of two) one that has none, on times in other units."""
    apart, gap = np.linalg.norm(x[:, None] - x2[None], axis=-1), np.abs(t[:, None] - t2[None]) / unit
    amplitude = season(SCALE, t, PERIOD * unit)[:, None] * season(SCALE, t2, PERIOD * unit)[None, :]
    found = 1.3**2 * amplitude * matern32(gap, 1.1) * matern32(apart, 1.5)
    return found + (terms > 1) * SLOW**2 * matern32(gap, 4.0) * matern32(apart, 1.5)


def model(terms=2, unit=1.0, scale=SCALE, noise=NOISE, likelihood=None, mean=TREND):
    swing = means.harmonics(PERIOD * unit, 2)
    space = kernels.Matern32(1.5)
    kernel = seqgp.Separable(kernels.Matern32(1.1 * unit), space, means.Modulated(1.3, swing, scale))
    if terms > 1:
        kernel = kernel + seqgp.Separable(kernels.Matern32(4.0 * unit), space, SLOW)
    if likelihood is None:
        likelihood = likelihoods.Gaussian(means.Modulated(0.5, means.harmonics(PERIOD * unit), noise))
    return seqgp.Model(kernel, likelihood, mean)


def exact(t, x, y, t_new, x_new, terms=2, unit=1.0):
    """Log evidence, and mean and variance of ``f`` at new points."""
    seen = ~np.isnan(y)
    t, x, y = t[seen], x[seen], y[seen]
    whole = covariance(t, x, t, x, terms, unit) + np.diag((0.5 * season(NOISE, t, PERIOD * unit)) ** 2)
    cross = covariance(t_new, x_new, t, x, terms, unit)
    gain = np.linalg.solve(whole, cross.T).T
    misfit = y - TREND
    evidence = -0.5 * (misfit @ np.linalg.solve(whole, misfit) + np.linalg.slogdet(2 * np.pi * whole)[1])
    left = covariance(t_new, x_new, t_new, x_new, terms, unit) - gain @ cross.T
    return evidence, TREND + gain @ misfit, np.diag(left)


def data(kind, unit=1.0):
    rng = np.random.default_rng(1)
    found = []
    for i, t in enumerate(TIMES * unit):
        n = 5 if kind == "joins" and i < 4 else len(X)
        y = rng.normal(size=n)
        if kind == "gaps":
            y[rng.random(n) < 0.3] = np.nan
        found.append(seqgp.Snapshot(t, X[:n], y))
    return found


def flat(snapshots):
    rows = [(np.full(len(s.x), s.t), s.x, s.y) for s in snapshots]
    return tuple(np.concatenate(part) for part in zip(*rows))


def filtered(chosen, snapshots, latent="auto"):
    """Filters of the only value of ``z``, and the log evidence."""
    ssm = StateSpaceModel(chosen)
    history = build_timeline(ssm, latent, snapshots, [None] * len(snapshots))
    filters, increments, _ = run_filters(history, np.zeros((16, 0)), len(snapshots))
    return history, filters, increments[0].sum()


@pytest.mark.parametrize(("kind", "terms", "name"), [
    ("complete", 1, "rotated"), ("complete", 2, "dense"), ("gaps", 2, "dense"), ("joins", 1, "dense"),
])  # fmt: skip
@pytest.mark.parametrize("ahead", [0.0, 0.4])
def test_filters_are_dense_algebra(kind, terms, name, ahead):
    snapshots = data(kind)
    history, filters, evidence = filtered(model(terms), snapshots)
    assert history.filter.name == name
    t = TIMES[-1] + ahead
    for x in (X, NEW):
        truth, mean, variance = exact(*flat(snapshots), np.full(len(x), t), x, terms)
        asked = predictive_of(history, filters, np.arange(16), np.zeros((16, 0)), x, t, None)
        found_mean, found_variance = asked.moments(history.ssm.model)
        assert evidence == pytest.approx(truth, abs=1e-10)
        np.testing.assert_allclose(found_mean[0], mean, atol=1e-10)
        np.testing.assert_allclose(found_variance[0], variance, atol=1e-10)


def test_a_network_with_gaps_is_dense_algebra():
    """62 stations, few gaps: the filter of low rank folds nothing."""
    x = np.random.default_rng(2).uniform(0, 6, (62, 2))
    y = np.random.default_rng(3).normal(size=(4, 62))
    y[0, 3] = y[1, [5, 9]] = y[3, 40] = np.nan
    snapshots = [seqgp.Snapshot(t, x, row) for t, row in zip(TIMES, y)]
    history, filters, evidence = filtered(model(), snapshots)
    assert history.filter.name == "low rank"
    for at in (x, NEW):
        truth, mean, variance = exact(*flat(snapshots), np.full(len(at), TIMES[3] + 0.3), at)
        asked = predictive_of(history, filters, np.arange(16), np.zeros((16, 0)), at, TIMES[3] + 0.3, None)
        found_mean, found_variance = asked.moments(history.ssm.model)
        assert evidence == pytest.approx(truth, abs=1e-8)
        np.testing.assert_allclose(found_mean[0], mean, atol=1e-8)
        np.testing.assert_allclose(found_variance[0], variance, atol=1e-8)


@pytest.mark.parametrize("terms", [1, 2])
def test_another_unit_of_time_changes_nothing(terms):
    one, other = (filtered(model(terms, unit), data("gaps", unit))[2] for unit in (1.0, 24.0))
    assert one == pytest.approx(other, abs=1e-10)


def test_without_swing_there_is_no_season():
    """Weights of zero are the model without them."""
    plain = seqgp.Model(
        seqgp.Separable(kernels.Matern32(1.1), kernels.Matern32(1.5), 1.3), likelihoods.Gaussian(0.5), TREND
    )
    still = model(1, scale=0.0, noise=0.0)
    for kind in ("complete", "gaps", "joins"):
        one, other = (filtered(chosen, data(kind))[2] for chosen in (plain, still))
        assert one == pytest.approx(other, abs=1e-12 * abs(one))


@pytest.mark.parametrize("likelihood", [None, likelihoods.Poisson()])
def test_a_swing_that_times_do_not_see_is_another_scale(likelihood):
    """Snapshots a whole period apart, on knots: the amplitude is a number."""
    rng = np.random.default_rng(4)
    snapshots = [seqgp.Snapshot(PERIOD * i + 0.8, rng.uniform(0, 3, (12, 1)), rng.poisson(2.0, 12)) for i in range(4)]
    space, swing = kernels.SquaredExponential(0.9), means.harmonics(PERIOD, 2)
    found = []
    for scale in (means.Modulated(1.3, swing, SCALE), float(1.3 * season(SCALE, 0.8))):
        kernel = seqgp.Separable(kernels.Matern32(2.0), space, scale)
        chosen = seqgp.Model(kernel, likelihood or likelihoods.Gaussian(0.4), TREND)
        found.append(filtered(chosen, snapshots, seqgp.Knots(20))[2])
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def test_counts_with_a_season_are_their_integral():
    """Three counts: EP, and EP with its correction, against quadrature over the three latent values."""
    t, x, y = np.array([0.4, 1.2, 2.9]), np.zeros((1, 2)), np.array([8.0, 0.0, 12.0])
    places = np.zeros((3, 2))
    root = np.linalg.cholesky(covariance(t, places, t, places, 1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    white = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    mass = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), -1).reshape(-1, 3), 1)
    f = white @ root.T + TREND
    truth = np.log(mass @ np.exp((y * f - np.exp(f)).sum(1)) / (2 * np.pi) ** 1.5) - np.log(40320.0 * 479001600.0)
    snapshots = [seqgp.Snapshot(a, x, [b]) for a, b in zip(t, y)]
    counts = model(1, likelihood=likelihoods.Poisson())
    for paths, error in ((0, 0.03), (512, 0.01)):
        sampler = seqgp.OnlineSampler(counts, particles=16, draws=16, paths=paths)
        state = seqgp.run(sampler, snapshots, key=jax.random.key(0)).state
        state, _ = sampler.refresh(jax.random.key(1), state)
        assert state.log_evidence == pytest.approx(truth, abs=error)
    assert abs(filtered(model(1, likelihood=likelihoods.Poisson(), scale=0.0), snapshots)[2] - truth) > 0.2


@pytest.mark.parametrize("x", [None, NEW], ids=["stations", "anywhere"])
def test_the_past_is_smoothed_with_its_season(x):
    """Mean and variance of 2000 paths at three times, one between snapshots: within 4.5 standard errors."""
    snapshots, chosen = data("gaps"), model()
    sampler = seqgp.OnlineSampler(chosen, particles=16, draws=2000)
    state = seqgp.run(sampler, snapshots, key=jax.random.key(0)).state
    times = [TIMES[1], 0.5 * (TIMES[3] + TIMES[4]), TIMES[6]]
    found = seqgp.smooth(jax.random.key(2), sampler, state, times, x, draws=2000)
    for t, latent in zip(times, found.latent):
        at = X if x is None else x
        _, mean, variance = exact(*flat(snapshots), np.full(len(at), t), at)
        z = (np.asarray(latent).mean(0) - mean) / np.sqrt(variance / 2000)
        ratio = (np.asarray(latent).var(0) / variance - 1) / np.sqrt(2 / 2000)
        assert max(np.abs(z).max(), np.abs(ratio).max()) < 4.5


def test_chains_and_simulation_have_the_same_kernel():
    """The kernel of points in time and space, and what the fields of chains make of it."""
    t, x = np.repeat(TIMES[:3], len(X)), np.tile(X, (3, 1))
    for terms in (1, 2):
        chosen = model(terms)
        parameters = chosen.parameters(jnp.zeros(0))
        found = chosen.kernel.covariance(chosen.kernel.prepare(jnp.asarray(t), jnp.asarray(x)), parameters)
        np.testing.assert_allclose(found, covariance(t, x, t, x, terms), atol=1e-12)
        fields = [seqgp.Dense()] + ([seqgp.Grid().resolve(chosen.kernel, X)] if terms == 1 else [])
        for field in fields:
            inputs = chosen.kernel, TIMES[:3], np.stack([X] * 3), np.ones((3, len(X)), bool), 1
            given = field.conditional(chosen.kernel, field.geometry(*inputs), parameters, (1e-10,))
            known, own = slice(0, 2 * len(X)), slice(2 * len(X), None)
            whole = covariance(t, x, t, x, terms)
            weights = np.linalg.solve(whole[known, known], whole[known, own]).T
            found = np.stack([given.mean(one.reshape(2, -1)) for one in jnp.eye(2 * len(X))], axis=1)
            np.testing.assert_allclose(found, weights, atol=1e-5)
            root = np.asarray(given.root.apply(jnp.eye(len(X))))
            np.testing.assert_allclose(root @ root.T, whole[own, own] - weights @ whole[known, own], atol=1e-7)


def test_weights_are_inferred_under_their_names():
    swing = means.harmonics(PERIOD)
    prior = dist.Normal(0.0, 0.5)
    chosen = seqgp.Model(
        seqgp.Separable(kernels.Matern12(1.0), kernels.Matern12(1.0), means.Modulated(dist.HalfNormal(), swing, prior)),
        likelihoods.Gaussian(means.Modulated(0.3, swing, [prior, 0.0])),
    )
    assert chosen.names == ["scale", "scale.season[0]", "scale.season[1]", "noise.season[0]"]
    assert chosen.likelihood.arguments()["noise"].weights[1] == 0.0


def test_what_has_no_season_is_refused():
    swing = means.harmonics(PERIOD)
    with pytest.raises(seqgp.ModelError, match=r"by = 'elevation'.*expected seqgp.means.harmonics"):
        means.Modulated(1.0, means.Feature(lambda t, x: t, "elevation"), 0.1)
    with pytest.raises(seqgp.ModelError, match="3 weights for the 2 columns of 'season'"):
        means.Modulated(1.0, swing, [0.1, 0.2, 0.3])
    with pytest.raises(seqgp.ModelError, match="noise: expected a number, a prior"):
        likelihoods.StudentT(means.Modulated(1.0, swing, 0.1))
    with pytest.raises(seqgp.ModelError, match=r"scale = -1.0 is not positive"):
        seqgp.Separable(kernels.Matern12(1.0), kernels.Matern12(1.0), means.Modulated(-1.0, swing, 0.1))
