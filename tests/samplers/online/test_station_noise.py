"""A noise for each station: against the exact posterior, by importance sampling in NumPy."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma

import seqgp
from seqgp import kernels, likelihoods
from seqgp.cli import main
from seqgp.reference import gaussian_posterior
from seqgp.report import report
from seqgp.samplers.online.station_moves import Residuals, population_log_prob

X = np.array([[0.0], [0.7], [1.5]])
TIMES = np.arange(8) * 0.5
TRUE = np.array([0.3, 1.2, 0.3])


def model(noise=None, concentration=None, **likelihood):
    return seqgp.Model(
        seqgp.Separable(kernels.Matern12(6.0), kernels.Matern12(4.0), 1.0),
        likelihoods.Gaussian(
            dist.LogNormal(-0.7, 0.6) if noise is None else noise,
            by="station",
            concentration=dist.LogNormal(0.7, 0.6) if concentration is None else concentration,
            **likelihood,
        ),
    )


def prior_covariance(t, x, t2, x2):
    return np.exp(-np.abs(t[:, None] - t2[None]) / 6.0 - np.linalg.norm(x[:, None] - x2[None], axis=-1) / 4.0)


def snapshots(joins=False, names=None):
    rng = np.random.default_rng(0)
    t, x = np.repeat(TIMES, 3), np.tile(X, (8, 1))
    f = np.linalg.cholesky(prior_covariance(t, x, t, x)) @ rng.standard_normal(24)
    y = f.reshape(8, 3) + TRUE * rng.standard_normal((8, 3))
    y[2, 0] = y[5, 1] = np.nan
    found = []
    for i, row in enumerate(y):
        kept = [0, 1] if joins and i < 4 else [0, 1, 2]
        context = None if names is None else {"station": np.array(names)[kept]}
        found.append(seqgp.Snapshot(TIMES[i], X[kept], row[kept], context))
    return found


def importance(data, count=200_000):
    """Weighted draws of the prior: noise, concentration and the noise of each station, and the log evidence."""
    rng = np.random.default_rng(1)
    size = rng.standard_normal((2, count))
    noise, a = np.exp(-0.7 + 0.6 * size[0]), np.exp(0.7 + 0.6 * size[1])
    stations = noise[:, None] / np.sqrt(rng.gamma(a[:, None], size=(count, 3)) / a[:, None])
    rows = [(np.full(len(s.x), s.t), s.x, s.y, np.searchsorted(X[:, 0], s.x[:, 0])) for s in data]
    t, x, y, which = (np.concatenate(part) for part in zip(*rows))
    seen = ~np.isnan(y)
    t, x, y, which = t[seen], x[seen], y[seen], which[seen]
    prior, logs = prior_covariance(t, x, t, x), []
    for part in np.array_split(stations, 100):
        whole = prior + np.eye(len(y)) * part[:, which][:, None, :] ** 2
        root = np.linalg.cholesky(whole)
        white = np.linalg.solve(root, np.broadcast_to(y[:, None], (len(part), len(y), 1)))[..., 0]
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        logs.append(-0.5 * (white**2).sum(1) - log_root - 0.5 * len(y) * np.log(2 * np.pi))
    logs = np.concatenate(logs)
    weights = np.exp(logs - logs.max())
    log_evidence = np.log(weights.mean()) + logs.max()
    return noise, a, stations, weights / weights.sum(), log_evidence


def moments(values, weights):
    mean = weights @ values
    return mean, np.sqrt(weights @ (values - mean) ** 2)


@pytest.mark.parametrize("joins", [False, True])
def test_particles_have_the_exact_posterior(joins):
    """Means within .25 exact sds, sds within 20%, the log evidence within .25: about 4 standard errors of each."""
    data = snapshots(joins)
    noise, a, stations, weights, log_evidence = importance(data)
    sampler = seqgp.OnlineSampler(model(), particles=512, draws=2000)
    state = seqgp.run(sampler, data, key=jax.random.key(3)).state
    truth = [np.log(noise), np.log(a), *np.log(stations).T]
    found = [np.log(np.asarray(state.parameters[name])) for name in ("noise", "noise.concentration")]
    found += list(np.log(state.station_noise.noise).T)
    for exact, draws in zip(truth, found, strict=True):
        mean, sd = moments(exact, weights)
        assert abs(draws.mean() - mean) < 0.25 * sd
        assert draws.std() == pytest.approx(sd, rel=0.2)
    assert state.log_evidence == pytest.approx(log_evidence, abs=0.25)


@pytest.fixture(scope="module")
def run():
    return seqgp.run(
        seqgp.OnlineSampler(model(), particles=64, draws=500), snapshots(joins=True), key=jax.random.key(1)
    )


def test_a_run_is_taken_up_again_bit_for_bit(run, tmp_path):
    """Stopped before the third station joins, and once more after it."""
    sampler = seqgp.OnlineSampler(model(), particles=64, draws=500)
    for until in (3, 6, 8):
        again = seqgp.run(sampler, snapshots(joins=True)[:until], key=jax.random.key(1), store=tmp_path / "run")
    assert np.array_equal(again.state.latent, run.state.latent)
    assert np.array_equal(again.state.station_noise.noise, run.state.station_noise.noise)
    stored = seqgp.Store(tmp_path / "run").latest().state
    assert np.array_equal(stored.station_noise.noise, run.state.station_noise.noise)


def test_each_station_is_predicted_with_its_noise(run):
    """Variances of new data less those of the latent, ahead: those of the station's draws, or of the population."""
    new = np.array([[0.3]])
    x = np.concatenate([X, new])
    prediction = seqgp.predict(jax.random.key(2), model(), run.state, x, t=run.state.t + 1)
    left = np.asarray(prediction.y) - np.asarray(prediction.f)
    expected = (run.state.station_noise.noise**2).mean(axis=0)
    assert (left[:, :3] ** 2).mean(axis=0) == pytest.approx(expected, rel=5 * np.sqrt(2 / 500) * 1.5)
    particles = run.state.particles
    other = seqgp.predict(jax.random.key(2), model(), run.state, X[[1]], t=run.state.t + 1)
    assert other.log_score([0.4]) == pytest.approx(prediction.log_score([np.nan, 0.4, np.nan, np.nan]), abs=1e-9)
    noise, a = (np.asarray(run.state.parameters[name]) for name in ("noise", "noise.concentration"))
    fresh = noise / np.sqrt(np.random.default_rng(3).gamma(a) / a)
    assert np.median(np.abs(left[:, 3])) == pytest.approx(0.6745 * np.median(fresh), rel=0.5)
    assert len(particles.z[0]) == 2 + 8  # noise, concentration, and room for eight stations


def test_names_come_from_the_context_else_from_places():
    sampler = seqgp.OnlineSampler(model(noise=0.3), particles=16, draws=50)
    named = seqgp.run(sampler, snapshots(names=["Oslo", "Bergen", "Narvik"])[:2], key=jax.random.key(0)).state
    assert named.station_noise.names == ("Oslo", "Bergen", "Narvik")
    table = named.station_noise.table()
    assert [row[1] for row in table] == sorted((row[1] for row in table), reverse=True)
    assert all(low < middle < high for _, middle, low, high in table)
    assert len(named.thinned(10).station_noise.noise) == 10
    plain = seqgp.run(sampler, snapshots()[:2], key=jax.random.key(0)).state
    assert plain.station_noise.names == ("0", "0.7", "1.5")
    assert np.array_equal(plain.latent, named.latent)


def test_summary_and_report_have_the_noisiest_station_first(tmp_path, capsys):
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=50)
    labelled = [seqgp.Snapshot(s.t, s.x, s.y, labels=["Oslo", "Bergen", "Narvik"]) for s in snapshots()[:3]]
    run = seqgp.run(sampler, labelled, key=jax.random.key(0), store=tmp_path / "run", progress=False)
    table = run.state.station_noise.table()
    assert {name for name, *_ in table} == {"Oslo", "Bergen", "Narvik"}
    said = str(run.summary())
    assert "noise of station" in said
    assert said.index(table[0][0]) < said.index(table[1][0]) < said.index(table[2][0])
    assert run.state.station_noise.lines(2)[-1] == "1 more stations have less noise"
    with pytest.raises(SystemExit):
        main(["summary", str(tmp_path / "run"), "--json"])
    found = json.loads(capsys.readouterr().out)["station_noise"]
    assert [row["station"] for row in found] == [name for name, *_ in table]
    assert found[0]["median"] == pytest.approx(table[0][1])
    page = report(run, tmp_path / "report.html").read_text()
    assert page.index("Noise of stations") < page.index(table[0][0], page.index("Noise of stations"))


def test_who_does_not_learn_noises_of_stations_refuses_them():
    delayed = seqgp.Model(seqgp.Delayed(model().kernel, 0.1), model().likelihood)
    for change, options in (
        (model(), {"history": 20}), (model(), {"forget": 0.9}), (model(), {"latent": seqgp.Knots(8)}), (delayed, {}),
    ):  # fmt: skip
        with pytest.raises(seqgp.SamplerError, match="by='station' does not take"):
            seqgp.OnlineSampler(change, **options)
    for sampler in (seqgp.FullSampler, seqgp.SequentialSampler):
        with pytest.raises(seqgp.ModelError, match=r"does not take by='station': use seqgp.OnlineSampler"):
            sampler(model())
    with pytest.raises(seqgp.ModelError, match=r"only seqgp.OnlineSampler"):
        gaussian_posterior(model(), snapshots(), model().parameters(np.zeros(2)))
    with pytest.raises(seqgp.ModelError, match=r"by = 'sensor': expected 'station'"):
        likelihoods.Gaussian(0.3, by="sensor")
    with pytest.raises(seqgp.ModelError, match="concentration has no effect"):
        likelihoods.Gaussian(0.3, concentration=2.0)
    with pytest.raises(seqgp.ModelError, match="does not take combine='squares'"):
        likelihoods.Gaussian(0.3, "se", "squares", by="station")


def test_late_snapshots_are_refused(run):
    sampler = seqgp.OnlineSampler(model(), particles=64, draws=500)
    with pytest.raises(seqgp.SamplerError, match="revise: the noises of stations"):
        sampler.revise(jax.random.key(0), run.state, snapshots()[:1])


def test_the_population_integrates_the_ratios_out():
    found, noise, a = Residuals(jnp.array([4.0, 7.0]), jnp.array([0.8, 11.0])), 0.5, 2.0
    log_ratio = np.linspace(-12.0, 6.0, 20_001)
    expected = 0.0
    for count, squares in zip(*map(np.asarray, found)):
        data = 0.5 * count * (log_ratio - np.log(2 * np.pi * noise**2)) - 0.5 * squares * np.exp(log_ratio) / noise**2
        each = data + gamma(a, scale=1 / a).logpdf(np.exp(log_ratio)) + log_ratio
        expected += logsumexp(each) + np.log(log_ratio[1] - log_ratio[0])
    assert float(population_log_prob(found, noise, a)) == pytest.approx(float(expected), abs=1e-9)
