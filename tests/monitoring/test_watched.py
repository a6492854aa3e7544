"""Flagged values of stations in the online sampler: kept, excluded or downweighted, and resumed bit for bit."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm

import seqgp
from seqgp.base.flags import station_names
from seqgp.likelihoods.gaussian import RATIOS
from seqgp.monitoring.effects import StationWindow, fit_station
from seqgp.samplers.online.loo import loo_of_treated
from seqgp.samplers.online.stations import StationNoise
from seqgp.samplers.online.watched import _with_stations
from seqgp.statespace.leave_one_out import leave_one_out, without
from station_streams import (
    BROKEN,
    MEAN,
    NOISE,
    SINCE,
    covariance,
    known_model,
    places,
    readings,
    shifted,
    snapshots,
)


def sampler(robust="flag", model=None, **settings):
    return seqgp.OnlineSampler(model or known_model(), particles=16, draws=32, robust=robust, **settings)


def followed(of, data):
    state, infos = None, []
    for one in data:
        key = jax.random.key(len(infos))
        state, info = of.init(key, one) if state is None else of.step(key, state, one)
        infos.append(info)
    return state, infos


def test_moments_without_some_data_are_those_of_the_rest():
    rng = np.random.default_rng(0)
    root, y, noise = rng.normal(size=(6, 6)), rng.normal(size=6), rng.uniform(0.3, 1.0, 6)
    prior, removed = root @ root.T, np.array([0, 1, 0, 0, 1, 0], bool)

    def given(seen):
        gain = prior[:, seen] @ np.linalg.inv(prior[np.ix_(seen, seen)] + np.diag(noise[seen]))
        return gain @ y[seen], prior - gain @ prior[seen]

    mean, cov = given(np.ones(6, bool))
    rows = np.append(np.flatnonzero(removed), 6)  # the last one is padding
    columns = np.append(cov[:, removed], np.ones((6, 1)), axis=1)
    found = without(y, noise, mean, np.diag(cov), columns, rows)
    few_mean, few_cov = given(~removed)
    np.testing.assert_allclose(found.mean, few_mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(few_cov), atol=1e-10)
    of_removed = multivariate_normal(few_mean[removed], few_cov[np.ix_(removed, removed)] + np.diag(noise[removed]))
    assert float(found.log_density) == pytest.approx(of_removed.logpdf(y[removed]))
    out = np.arange(6) == 3
    loo, (left_mean, left_cov) = leave_one_out(y, noise, found.mean, found.variance), given(~removed & ~out)
    assert float(loo[0][3]) == pytest.approx(left_mean[3])
    assert float(loo[1][3]) == pytest.approx(left_cov[3, 3] + noise[3])


def test_a_gross_shift_is_flagged_at_once_and_told_from_a_wrong_reading():
    y = readings()
    _, shift = followed(sampler(), snapshots(shifted(y)))
    name = shift[SINCE].stations.flags[0].station
    assert [flag.kind for flag in shift[SINCE].stations.flags] == ["spike"]
    last = shift[-1].stations.flags
    assert [(flag.station, flag.kind, flag.since) for flag in last] == [(name, "level", SINCE)]
    assert abs(last[0].size - 7.0) < 3 * last[0].se
    assert any("level shift" in warning and "since t = 6" in warning for warning in shift[-1].warnings)
    once = y.copy()
    once[SINCE, BROKEN] += 7.0
    _, spike = followed(sampler(), snapshots(once))
    assert [flag.kind for flag in spike[SINCE].stations.flags] == ["spike"]
    assert not any(info.stations.flags for i, info in enumerate(spike) if i != SINCE)


def test_excluding_is_as_if_the_values_were_missing():
    data = shifted(readings(missing=0.1))
    state, infos = followed(sampler("exclude"), snapshots(data))
    unused = np.array([np.isinf(info.stations.factors) for info in infos])
    assert (unused | np.isnan(data))[SINCE:, BROKEN].all()
    assert unused.sum() == unused[SINCE:, BROKEN].sum()
    by_hand, others = followed(sampler(), snapshots(np.where(unused, np.nan, data)))
    np.testing.assert_array_equal(state.latent, by_hand.latent)
    assert state.log_evidence == by_hand.log_evidence
    # What is excluded is predicted all the same, from what is not.
    seen = np.delete(np.arange(8), BROKEN)
    np.testing.assert_allclose(infos[-1].loo.mean[seen], others[-1].loo.mean[seen], rtol=1e-9)
    assert infos[-1].loo.mean[BROKEN] == pytest.approx(MEAN, abs=8)
    assert infos[-1].missing == int(np.isnan(data[-1]).sum())


def dense(y, factors):
    """Log evidence of all data, and the prediction of the last day's broken station from all others, by hand."""
    t, x = np.repeat(np.arange(len(y)), y.shape[1]).astype(float), np.tile(places(), (len(y), 1))
    flat, noise = y.ravel(), NOISE**2 * factors.ravel() ** 2
    used = np.isfinite(noise) & ~np.isnan(flat)
    cov = covariance(t, x)
    evidence = multivariate_normal(np.full(used.sum(), MEAN), cov[np.ix_(used, used)] + np.diag(noise[used])).logpdf(
        flat[used]
    )
    target = len(flat) - y.shape[1] + BROKEN
    used[target] = False
    gain = np.linalg.solve(cov[np.ix_(used, used)] + np.diag(noise[used]), cov[used, target])
    return evidence, MEAN + gain @ (flat[used] - MEAN), cov[target, target] - gain @ cov[used, target] + NOISE**2


@pytest.mark.parametrize("robust", ["flag", "exclude", "downweight"])
def test_evidence_and_predictions_are_those_of_dense_algebra(robust):
    y = shifted(readings())
    state, infos = followed(sampler(robust), snapshots(y))
    factors = np.array([info.stations.factors for info in infos])
    assert factors.max() == {"flag": 1.0, "exclude": np.inf, "downweight": 10.0}[robust]
    evidence, mean, variance = dense(y, factors)
    assert state.log_evidence == pytest.approx(evidence, rel=1e-8)
    loo = infos[-1].loo
    assert loo.mean[BROKEN] == pytest.approx(mean, rel=1e-7)
    assert loo.sd[BROKEN] == pytest.approx(np.sqrt(variance), rel=1e-7)
    assert loo.log_score[BROKEN] == pytest.approx(norm.logpdf(y[-1, BROKEN], mean, np.sqrt(variance)), rel=1e-6)
    if robust != "flag":
        return
    # The scores of neighbours are those without the wrong reading.
    wrong = infos[SINCE].stations.z
    y[SINCE, BROKEN] = np.nan
    _, clean = followed(sampler(), snapshots(y[: SINCE + 1]))
    seen = np.delete(np.arange(8), BROKEN)
    np.testing.assert_allclose(wrong[seen], clean[-1].loo.z[seen], atol=1e-7)


def test_predictions_leave_out_wrong_data_with_the_weights_of_the_particles():
    """Of two particles that differ in noise alone, by Bayes' rule for each."""
    model = known_model(dist.LogNormal(-1.0, 0.5))
    data = snapshots(readings(days=3))
    state, _ = followed(seqgp.OnlineSampler(model, particles=16, draws=8), data)
    removed = np.arange(8) == BROKEN
    y, weights = np.asarray(data[-1].y), state.particles.weights()
    found, _ = loo_of_treated(state.live.history, state.live.filters, weights, y, np.ones(8), removed)
    t, x = np.repeat(np.arange(3), 8).astype(float), np.tile(places(), (3, 1))
    cov, flat = covariance(t, x), np.concatenate([one.y for one in data])
    used, out = np.ones(24, bool), 16 + BROKEN
    used[out] = False
    means, logs = [], []
    for z, weight in zip(state.particles.z, weights):
        noise = float(model.parameters(z)["noise"]) ** 2
        s = cov[np.ix_(used, used)] + noise * np.eye(23)
        gain = np.linalg.solve(s, cov[used, out])
        mean, var = MEAN + gain @ (flat[used] - MEAN), cov[out, out] - gain @ cov[used, out] + noise
        means.append(mean)
        logs.append(np.log(weight) - norm.logpdf(flat[out], mean, np.sqrt(var)))
    share = np.exp(np.array(logs) - max(logs))
    assert found.mean[BROKEN] == pytest.approx(share @ means / share.sum(), rel=1e-8)


@pytest.mark.parametrize("robust", ["exclude", "downweight"])
def test_a_run_resumes_bit_for_bit(robust, tmp_path):
    model = known_model(dist.LogNormal(-1.0, 0.3))
    data = snapshots(shifted(readings(days=11)))
    key = jax.random.key(3)
    whole = seqgp.run(sampler(robust, model), data, key, store=tmp_path / "whole", forecast=False)
    seqgp.run(sampler(robust, model), data[:8], key, store=tmp_path / "parts", forecast=False)
    resumed = seqgp.run(sampler(robust, model), data, store=tmp_path / "parts", forecast=False)
    np.testing.assert_array_equal(whole.state.latent, resumed.state.latent)
    assert whole.infos[-1].stations.flags == resumed.infos[-1].stations.flags != ()
    assert whole.infos[-1].stations.factors[BROKEN] != 1.0
    np.testing.assert_array_equal(whole.infos[-1].loo.z, resumed.infos[-1].loo.z)
    stored = seqgp.Store(tmp_path / "parts").latest()
    assert stored.snapshot.y[BROKEN] == data[-1].y[BROKEN]  # as it was reported
    assert "from then on" in stored.info.warnings[-1]
    with pytest.raises(seqgp.StoreError, match="robust"):
        seqgp.run(sampler("flag", model), data, store=tmp_path / "parts")
    # What the steps stored, what a run in memory says, and the monitor begun anew agree.
    report = seqgp.monitor(seqgp.Store(tmp_path / "parts"), model)
    assert report.flagged[0].now == stored.info.stations.flags[0]
    assert report.flagged[0].unused == 11 - SINCE
    assert seqgp.monitor(whole).rows() == report.rows()
    anew = seqgp.monitor(seqgp.Store(tmp_path / "parts"), model, false_alarms=0.1)
    assert [one.station for one in anew.flagged] == [report.flagged[0].station]
    assert seqgp.monitor(whole, false_alarms=1e-60).flagged == ()


def test_a_station_that_reads_right_again_is_released():
    y = shifted(readings(days=34))
    y[18:, BROKEN] -= 7.0
    state, infos = followed(sampler("exclude"), snapshots(y))
    flagged = [any(flag.kind == "level" for flag in info.stations.flags) for info in infos]
    assert flagged[17]
    assert not flagged[-1]
    assert infos[-1].stations.factors[BROKEN] == 1.0
    report = seqgp.monitor(seqgp.Run(state, infos, snapshots(y)[-1], known_model()))
    until = [one.flags[0].until for one in report.stations if one.flags]
    assert len(until) == 1
    assert 18 < until[0] < 34


def test_stations_join_and_leave():
    y = readings(days=14)
    x, data = places(), []
    for t, row in enumerate(y):
        there = np.arange(8) if t >= 4 else np.arange(6)
        there = there[there != 0] if t >= 9 else there
        data.append(seqgp.Snapshot(float(t), x[there], row[there]))
    state, infos = followed(sampler(), data)
    assert len(state.watch.monitor.names) == 8
    assert not any(info.stations.flags for info in infos)
    report = seqgp.monitor(seqgp.Run(state, infos, data[-1], known_model()))
    counts = sorted(one.readings for one in report.stations)
    assert counts == sorted([9, 10, 10, 14, 14, 14, 14, 14])


def test_what_cannot_be_is_refused():
    counts = seqgp.Model(known_model().kernel, seqgp.likelihoods.Poisson(), mean=0.0)
    with pytest.raises(seqgp.SamplerError, match="Gaussian data alone"):
        seqgp.OnlineSampler(counts, robust="exclude")
    with pytest.raises(seqgp.SamplerError, match="expected one of 'flag', 'exclude', 'downweight'"):
        sampler("ignore")
    with pytest.raises(seqgp.SamplerError, match="false_alarms"):
        sampler(false_alarms=0)
    data = [seqgp.Snapshot(0.0, places(), np.arange(8.0))]
    run = seqgp.run(seqgp.OnlineSampler(counts, particles=16, draws=8, paths=0), data, jax.random.key(0))
    with pytest.raises(seqgp.DataError, match="no leave-one-out residuals"):
        seqgp.monitor(run)


def test_a_revision_keeps_what_is_flagged_and_takes_values_as_they_are():
    data = snapshots(shifted(readings(days=12)))
    of = sampler("exclude")
    state, infos = followed(of, data)
    late = seqgp.Snapshot(data[3].t, data[3].x, data[3].y + 0.1)
    revised, info = of.revise(jax.random.key(9), state, [late])
    assert info.stations.flags == infos[-1].stations.flags != ()
    assert np.isinf(info.stations.factors[BROKEN])
    used = np.array([np.isnan(one.y) for one in revised.snapshots])
    assert used[SINCE:, BROKEN].all()
    assert not used[:SINCE].any()
    by_hand = [late if one.t == late.t else seqgp.Snapshot(one.t, one.x, one.y) for one in state.snapshots]
    assert revised.log_evidence == pytest.approx(followed(sampler(), by_hand)[0].log_evidence, rel=1e-9)
    onwards, more = of.step(jax.random.key(10), revised, seqgp.Snapshot(12.0, places(), data[-1].y))
    assert np.isinf(more.stations.factors[BROKEN])
    assert onwards.step == revised.step + 1


def test_a_station_whose_readings_were_all_corrected_is_no_longer_flagged():
    """One reading left as it was keeps the flag."""
    right = readings()
    wrong = shifted(right)
    of = sampler("exclude")
    state, infos = followed(of, snapshots(wrong))
    (flag,) = infos[-1].stations.flags
    mended = snapshots(right)[SINCE:]
    _, info = of.revise(jax.random.key(1), state, mended[1:])
    assert [one.station for one in info.stations.flags] == [flag.station]
    for corrected in (mended, [one._replace(y=np.where(np.arange(8) == BROKEN, np.nan, one.y)) for one in mended]):
        revised, info = of.revise(jax.random.key(1), state, corrected)
        assert info.stations.flags == ()
        assert not any("level shift" in warning for warning in info.warnings)
    assert revised.watch.monitor.names == state.watch.monitor.names
    day = snapshots(np.concatenate([right, right[-1:]]))[-1]
    _, info = of.step(jax.random.key(3), revised, day)
    assert (info.stations.factors == 1.0).all()


def test_labels_name_the_stations():
    data = [seqgp.Snapshot(one.t, one.x, one.y, labels="abcdefgh") for one in snapshots(shifted(readings()))]
    state, infos = followed(sampler("exclude"), data)
    run = seqgp.Run(state, infos, data[-1], known_model())
    assert seqgp.monitor(run)["c"].state == "level shift"
    assert str(seqgp.monitor(run)).startswith("Station c reads ")
    assert infos[-1].warnings[-1].startswith("level shift (c): Station c reads ")
    with pytest.raises(seqgp.DataError, match="2 labels for 8 rows"):
        seqgp.Snapshot(0.0, places(), np.zeros(8), labels=["a", "b"])


@pytest.mark.parametrize("robust", ["flag", "exclude"])
def test_a_broken_sensor_is_flagged_beside_a_noise_of_each_station(robust):
    """The evidence of a fault takes the noise of its own station."""
    noisy = seqgp.Model(
        known_model().kernel,
        seqgp.likelihoods.Gaussian(dist.LogNormal(np.log(NOISE), 0.3), by="station", concentration=20.0),
        mean=MEAN,
    )
    of = seqgp.OnlineSampler(noisy, particles=32, draws=64, robust=robust)
    state, infos = followed(of, snapshots(shifted(readings(days=9))))
    flags = infos[-1].stations.flags
    assert [flag.station for flag in flags] == [station_names(places(), None)[BROKEN]]
    assert state.station_noise is not None


def test_the_evidence_has_the_noise_of_each_station():
    """With ratios all one it is the evidence of a model with one noise."""
    data = snapshots(shifted(readings(days=8)))
    parameters = {name: np.asarray(v) for name, v in known_model().parameters(np.zeros(0)).items()}
    names = [[str(i) for i in range(8)]] * len(data)
    plain = fit_station(known_model(), parameters, StationWindow(data, names), str(BROKEN))
    by = seqgp.Model(
        known_model().kernel, seqgp.likelihoods.Gaussian(NOISE, by="station", concentration=20.0), mean=MEAN
    )
    noise = StationNoise(places(), tuple(map(str, range(8))), np.full((3, 8), NOISE))
    window = StationWindow([_with_stations(one, noise) for one in data], names)
    same = fit_station(by, parameters | {RATIOS: np.ones(8)}, window, str(BROKEN))
    assert same.level(SINCE).size == pytest.approx(plain.level(SINCE).size, rel=1e-12)
    ratios = np.where(np.arange(8) == BROKEN, 0.01, 1.0)
    louder = fit_station(by, parameters | {RATIOS: ratios}, window, str(BROKEN))
    assert louder.level(SINCE).se > 2 * plain.level(SINCE).se  # a station with ten times the noise tells less
