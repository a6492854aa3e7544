"""The parts of scores: mixtures of normals, kriging, standard errors, and simple forecasts of held-out data."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

import seqgp
from seqgp.evaluate.held_out_baselines import KRIGING, HeldOutBaselines
from seqgp.evaluate.kriging import Day, Variance, _profile, fit_variance, krige
from seqgp.evaluate.paired import clustered_mean
from seqgp.evaluate.point_scores import GaussianMixture


def test_scores_of_a_mixture_are_those_of_quadrature():
    mean, sd, weight = np.array([[-1.0], [2.0]]), np.array([[0.5], [1.5]]), np.array([0.3, 0.7])
    mixture, y = GaussianMixture(mean, sd, weight), np.array([0.4])

    def cdf(u):
        return weight @ norm.cdf(u, mean[:, 0], sd[:, 0])

    crps = quad(lambda u: cdf(u) ** 2, -15, 0.4)[0] + quad(lambda u: (1 - cdf(u)) ** 2, 0.4, 20)[0]
    found = mixture.scores(y)
    np.testing.assert_allclose(found.crps, crps, rtol=1e-7)
    np.testing.assert_allclose(found.pit, cdf(0.4))
    np.testing.assert_allclose(found.log_score, np.log(weight @ norm.pdf(0.4, mean[:, 0], sd[:, 0])))
    np.testing.assert_allclose(cdf(found.median[0]), 0.5)


def test_the_standard_error_is_the_sum_over_all_pairs_that_go_together():
    rng = np.random.default_rng(0)
    times, stations = (part.ravel().astype(int) for part in np.meshgrid(np.arange(9), np.arange(4), indexing="ij"))
    values = rng.normal(size=36) + 2 * rng.normal(size=9)[times] + rng.normal(size=4)[stations]
    error, lags = values - values.mean(), 2 + 1  # 9^(1/3) and one step ahead
    total = 0.0
    for i in range(36):
        for j in range(36):
            lag = abs(times[i] - times[j])
            serial = max(0.0, 1 - lag / (lags + 1)) * 9 / 8
            same = (stations[i] == stations[j]) * 4 / 3 - (i == j)
            total += (serial + same) * error[i] * error[j]
    found = clustered_mean(values, times, stations.tolist(), ahead=1)
    np.testing.assert_allclose(found, (values.mean(), np.sqrt(total) / 36))


def test_the_standard_error_holds_where_data_depend():
    """Over 400 series of AR(1) times that all stations share: within a fifth of the truth (its error is a 30th)."""
    rng = np.random.default_rng(1)
    means, errors = [], []
    for _ in range(400):
        shared = np.zeros(200)
        for t in range(1, 200):
            shared[t] = 0.3 * shared[t - 1] + rng.normal()
        values = shared[:, None] + 0.5 * rng.normal(size=(200, 3))
        found = clustered_mean(values.ravel(), np.repeat(np.arange(200.0), 3), np.tile(np.arange(3), 200).tolist())
        means.append(found.value)
        errors.append(found.se)
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.2)


def day(rng, n=12, p=2):
    x = rng.random((n, 2))
    drift = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    return Day(x, 3 * rng.normal(size=n), drift)


def test_kriging_is_conditioning_with_a_vague_prior_on_the_drift():
    rng = np.random.default_rng(2)
    one, new = day(rng), day(rng, 3)
    length, nugget, sill = variance = Variance(0.4, 0.2, 2.5)
    x, drift = np.concatenate([one.x, new.x]), np.concatenate([one.drift, new.drift])
    apart = np.linalg.norm(x[:, None] - x[None], axis=-1)
    whole = sill * (np.exp(-apart / length) + nugget * np.eye(15)) + 1e6 * drift @ drift.T
    weights = np.linalg.solve(whole[:12, :12], whole[:12, 12:])
    mean, sd = krige(one, variance, new.x, new.drift)
    np.testing.assert_allclose(mean, weights.T @ one.y, rtol=1e-4)
    np.testing.assert_allclose(sd**2, np.diag(whole[12:, 12:] - whole[12:, :12] @ weights), rtol=1e-4)


def test_the_restricted_likelihood_is_that_of_contrasts():
    """Of data without their regression on the drift, by any orthonormal basis: up to a constant."""
    rng = np.random.default_rng(3)
    days = [day(rng), day(rng, 9)]
    apart = [np.linalg.norm(d.x[:, None] - d.x[None], axis=-1) for d in days]
    differences = []
    for length, nugget in ((0.2, 0.1), (0.7, 0.5)):
        value, fitted = _profile(days, apart, length, nugget)
        total = 0.0
        for one, distance in zip(days, apart):
            basis = np.linalg.svd(one.drift)[0][:, 2:]
            cov = fitted.sill * basis.T @ (np.exp(-distance / length) + nugget * np.eye(len(one.y))) @ basis
            total -= 2 * multivariate_normal(np.zeros(len(cov)), cov).logpdf(basis.T @ one.y)
        differences.append(value - total)
    np.testing.assert_allclose(differences[0], differences[1], rtol=1e-8)


def test_a_length_is_found():
    rng = np.random.default_rng(4)
    days = []
    for _ in range(25):
        x = rng.random((40, 2))
        cov = 4 * np.exp(-np.linalg.norm(x[:, None] - x[None], axis=-1) / 0.3) + 0.2 * np.eye(40)
        days.append(Day(x, 7 + np.linalg.cholesky(cov) @ rng.normal(size=40), np.ones((40, 1))))
    found = fit_variance(days)
    assert found is not None
    assert 0.15 < found.length < 0.6
    assert 2 < found.sill < 8


X = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])


def network(y):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0))
    return HeldOutBaselines(kernel, [seqgp.Snapshot(float(t), X, row) for t, row in enumerate(y)])


def test_persistence_is_the_station_s_last_value_or_the_nearest_s():
    y = np.arange(15.0).reshape(5, 3) ** 2
    y[4, 1] = np.nan
    new = seqgp.Snapshot(4.0, [[1.0, 0.0], [1.2, 0.0], [9.0, 0.0]], [0.0, 0.0, 0.0])
    found = network(y)(new, 4, 0)["persistence"]
    np.testing.assert_allclose(found.mean, [y[3, 1], y[3, 1], y[4, 2]])
    own = np.concatenate([(y[1:] - y[:-1])[:, 0], (y[1:4] - y[:3])[:, 1], (y[1:] - y[:-1])[:, 2]])
    np.testing.assert_allclose(found.sd[0], np.sqrt(np.mean(own**2)))
    carried = np.where(np.isnan(y), y[3], y)
    near = np.concatenate([y[:, 0] - carried[:, 1], (y - carried[:, [0]])[:4, 1], y[:, 2] - carried[:, 1]])
    np.testing.assert_allclose(found.sd[1], np.sqrt(np.mean(near**2)))


def test_simple_forecasts_see_nothing_after_their_origin():
    rng = np.random.default_rng(5)
    y = rng.normal(size=(8, 3))
    changed = y.copy()
    changed[5:] += 100
    new = seqgp.Snapshot(5.0, [[1.0, 0.0], [2.0, 2.0]], [0.0, 0.0])
    before, after = (network(values)(new, 4, 1) for values in (y, changed))
    assert set(before) == {"persistence", "AR(1)"}
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
        assert np.isfinite(before[name].mean).all()
    other = network(changed)(new, 5, 0)
    assert KRIGING in other
    assert not np.array_equal(other["persistence"].mean, before["persistence"].mean)
