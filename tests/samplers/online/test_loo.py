"""Leave-one-out predictions of a step: dense algebra without the datum, and filters that run again without it."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm

import seqgp
from seqgp.base.info import LeaveOneOut
from seqgp.io.serialise import decode, encode
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.loo import loo_mixture
from seqgp.samplers.online.predictive import predictive_of

MEAN_SD = 2.0
TIME, SCALE = dist.LogNormal(0.3, 0.5), dist.LogNormal(0.0, 0.4)


def model(likelihood, space=None, slowness=None):
    space = space or seqgp.kernels.Matern32(0.4)
    kernel = seqgp.Separable(seqgp.kernels.Matern32(TIME), space, SCALE)
    if slowness is not None:
        kernel = seqgp.Delayed(kernel, slowness=slowness)
    return seqgp.Model(kernel, likelihood, mean=dist.Normal(0.0, MEAN_SD))


def stream(stations, times, missing, errors=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((stations, 2))
    context = {"error": rng.uniform(0.5, 2.0, stations)} if errors else None
    wave, found = rng.normal(size=(times, 3)).cumsum(axis=0) * 0.5, []
    for t in range(times):
        y = 1.0 + wave[t, 0] + wave[t, 1:] @ np.sin(3 * x.T) + 0.3 * rng.normal(size=stations)
        y[rng.random(stations) < missing] = np.nan
        y[0] = 2.5 if t == times - 1 else y[0]
        found.append(seqgp.Snapshot(1.3 * t + 0.2 * (t % 2), x, y, context))
    return found


PLAIN = seqgp.likelihoods.Gaussian(dist.LogNormal(-1.0, 0.5))
TREND = seqgp.likelihoods.Gaussian(dist.LogNormal(-1.0, 0.5), errors="error", combine="squares", trend=0.02)
SMOOTH = seqgp.kernels.SquaredExponential(0.6)
CASES = {  # model, data, where the latent lives, the filter
    "complete": (model(PLAIN), stream(7, 5, 0.0), "auto", "rotated"),
    "gaps": (model(PLAIN), stream(7, 5, 0.3), "auto", "dense"),
    "errors": (model(TREND), stream(7, 5, 0.3, errors=True), "auto", "dense"),
    "network": (model(PLAIN), stream(61, 3, 0.1), "auto", "low rank"),
    "knots": (model(PLAIN, SMOOTH), stream(9, 4, 0.2), seqgp.Knots(), "modes of knots"),
    "delayed": (model(PLAIN, slowness=[0.2, -0.1]), stream(6, 4, 0.2), "auto", "delayed"),
}
EXACT = ("complete", "gaps", "errors", "network")


@pytest.fixture(scope="module", params=CASES)
def case(request):
    of, data, latent, filter = CASES[request.param]
    sampler = seqgp.OnlineSampler(of, particles=16, draws=32, latent=latent)
    run = seqgp.run(sampler, data, key=jax.random.key(1))
    return request.param, sampler, run.state, run.infos[-1], filter


def mixed(y, mean, variance, log_density, weights):
    """By scipy, a datum at a time."""
    share = weights / np.exp(log_density)
    share /= share.sum()
    centre = share @ mean
    below, above = share @ norm.cdf(y, mean, np.sqrt(variance)), share @ norm.sf(y, mean, np.sqrt(variance))
    z = norm.ppf(below) if below < above else norm.isf(above)  # the smaller tail has the digits
    log_score = np.log(share @ norm.pdf(y, mean, np.sqrt(variance)))
    sd = np.sqrt(share @ (variance + (mean - centre) ** 2))
    return LeaveOneOut(centre, sd, z, below, log_score, 1 / np.sum(share**2))


def check(loo, i, expected, rtol):
    for name, found, value in zip(LeaveOneOut._fields, loo, expected):
        assert found[i] == pytest.approx(value, rel=rtol, abs=rtol), (name, i)


def covariance(of, parameters, snapshots):
    """Of all data that are there, coefficients of the mean integrated out."""
    t = np.concatenate([np.full(len(one.x), one.t) for one in snapshots])
    x = np.concatenate([one.x for one in snapshots])
    noise = [
        np.broadcast_to(of.likelihood.noise(of.likelihood.context_at(one.t, one.context), parameters), one.y.shape)
        for one in snapshots
    ]
    found = np.asarray(of.kernel.covariance(of.kernel.prepare(t, x), parameters)) + MEAN_SD**2
    return found + np.diag(np.concatenate(noise) ** 2)


def test_dense_algebra_without_the_datum(case):
    """The distribution of each datum given all others; the weights by the evidence without it."""
    name, sampler, state, info, _ = case
    if name not in EXACT:
        pytest.skip("the filter has a kernel of its own; it runs again below")
    y = np.concatenate([one.y for one in state.snapshots])
    seen = np.flatnonzero(~np.isnan(y))
    y, first = y[seen], len(np.concatenate([one.y for one in state.snapshots[:-1]]))
    matrices = [
        covariance(sampler.model, sampler.ssm.parameters(z), state.snapshots)[np.ix_(seen, seen)]
        for z in state.particles.z
    ]
    evidence = [multivariate_normal.logpdf(y, cov=matrix) for matrix in matrices]
    for k in np.flatnonzero(seen >= first)[:8]:
        rest = np.arange(len(y)) != k
        found = []
        for matrix, log_evidence in zip(matrices, evidence):
            gain = np.linalg.solve(matrix[np.ix_(rest, rest)], matrix[rest, k])
            without = multivariate_normal.logpdf(y[rest], cov=matrix[np.ix_(rest, rest)])
            found.append((gain @ y[rest], matrix[k, k] - gain @ matrix[rest, k], log_evidence - without))
        expected = mixed(y[k], *np.array(found).T, state.particles.weights())
        check(info.loo, seen[k] - first, expected, 1e-6)


def test_filters_that_run_again_without_the_datum(case):
    _, sampler, state, info, _ = case
    particles, last = state.particles, state.snapshots[-1]
    z, steps = np.asarray(particles.z), len(state.snapshots)

    def again(y):
        changed = (*state.snapshots[:-1], seqgp.Snapshot(last.t, last.x, y, last.context))
        history = build_timeline(sampler.ssm, sampler.latent, changed, state.linearised_snapshots)
        filters, increments, _ = run_filters(history, z, steps)
        return history, filters, increments.sum(axis=1)

    *_, evidence = again(last.y)
    for i in np.flatnonzero(~np.isnan(last.y))[:2]:
        y = last.y.copy()
        y[i] = np.nan
        history, filters, without = again(y)
        context = None if last.context is None else {name: value[[i]] for name, value in last.context.items()}
        predictive = predictive_of(history, filters, np.arange(len(z)), z, last.x[[i]], last.t, context)
        mean, variance = (part[:, 0] for part in predictive.moments(sampler.model))
        likelihood = sampler.model.likelihood
        at = likelihood.context_at(last.t, context)
        noise = np.array([np.ravel(likelihood.noise(at, sampler.ssm.parameters(one)))[0] for one in z])
        expected = mixed(last.y[i], mean, variance + noise**2, evidence - without, particles.weights())
        check(info.loo, i, expected, 1e-5)


def test_the_filter_is_the_one_meant(case):
    _, _, _, info, filter = case
    assert filter in info.settings["filter"]


def test_missing_data_have_none(case):
    _, _, state, info, _ = case
    missing = np.isnan(state.snapshots[-1].y)
    for values in info.loo:
        assert values.shape == missing.shape
        assert np.array_equal(np.isnan(values), missing)


def test_far_out_the_score_keeps_its_digits():
    loo = loo_mixture(np.array([40.0, -40.0]), np.zeros((3, 2)), np.ones((3, 2)), np.full(3, 1 / 3))
    assert loo.z == pytest.approx([40.0, -40.0])


def test_a_particle_without_weight_has_no_part():
    two = loo_mixture(np.zeros(1), np.array([[0.1], [5.0]]), np.ones((2, 1)), np.array([1.0, 0.0]))
    assert two.mean == pytest.approx([0.1])
    assert two.ess == pytest.approx([1.0])


def test_all_missing_and_not_gaussian():
    data = stream(4, 2, 0.0)
    silent = seqgp.Snapshot(9.0, data[0].x, np.full(4, np.nan))
    run = seqgp.run(seqgp.OnlineSampler(model(PLAIN), particles=16, draws=16), [*data, silent], key=jax.random.key(0))
    assert all(np.isnan(values).all() and len(values) == 4 for values in run.infos[-1].loo)
    counts = seqgp.Snapshot(0.0, data[0].x, np.array([1.0, 0.0, 2.0, 3.0]))
    poisson = seqgp.OnlineSampler(model(seqgp.likelihoods.Poisson()), particles=16, draws=16, paths=0)
    assert poisson.init(jax.random.key(0), counts)[1].loo is None


def test_it_is_stored_and_runs_of_before_open(tmp_path):
    data = stream(4, 3, 0.2)
    run = seqgp.run(
        seqgp.OnlineSampler(model(PLAIN), particles=16, draws=16), data, store=tmp_path / "run", key=jax.random.key(0)
    )
    for step, info in zip(seqgp.Store(tmp_path / "run"), run.infos):
        assert isinstance(step.info.loo, LeaveOneOut)
        for read, made in zip(step.info.loo, info.loo):
            np.testing.assert_array_equal(read, made)
    arrays = {}
    older = encode(run.infos[-1], "info", arrays, lenient=True)
    del older["fields"]["loo"]
    assert decode(older, arrays).loo is None
