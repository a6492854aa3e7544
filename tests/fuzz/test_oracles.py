"""The oracles agree with closed forms, and with each other where two of them apply."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from tests.fuzz.bounds import shift_of
from tests.oracles import dense, importance, kernels, likelihoods, particles, quadrature
from tests.oracles.dense import Rows

TERMS = [
    {"time": {"kind": "Matern32", "lengthscale": 2.0}, "space": {"kind": "Matern52", "lengthscale": 1.5}, "scale": 1.3}
]
FAMILIES = [
    {"family": "StudentT", "noise": 0.5, "df": 3.0},
    {"family": "LogNormal", "noise": 0.4},
    {"family": "Censored", "noise": 0.5, "limit": 0.2},
    {"family": "Poisson", "exposure": 2.0},
    {"family": "NegativeBinomial", "dispersion": 2.0},
    {"family": "Bernoulli"},
    {"family": "Bernoulli", "link": "probit"},
    {"family": "Binomial", "trials": 7.0},
    {"family": "Gamma", "shape": 3.0},
    {"family": "Beta", "precision": 5.0},
    {"family": "Ordinal", "cutpoints": [-1.0, 0.3, 1.5]},
]


def model_of(likelihood):
    return {"terms": TERMS, "mean": {"intercept": ("normal", 0.3, 0.7), "features": []}, "likelihood": likelihood}


def rows(t, y, seed=0):
    x = np.random.default_rng(seed).normal(size=(len(t), 2))
    return Rows(np.asarray(t, float), x, np.asarray(y, float), {})


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda one: "-".join(map(str, one.values())))
def test_a_density_adds_up_to_one_and_is_that_of_its_samples(likelihood):
    f, named = np.array([0.4]), {"t": np.zeros(1)}

    def density(y):
        return float(np.exp(likelihoods.log_density(likelihood, f, np.array([float(y)]), named))[0])

    drawn = likelihoods.sample(likelihood, np.full(4000, 0.4), {"t": np.zeros(4000)}, np.random.default_rng(1))
    if np.array_equal(drawn, np.floor(drawn)) and likelihood["family"] != "Censored":
        values = np.arange(0, {"Bernoulli": 2, "Binomial": 8, "Ordinal": 4}.get(likelihood["family"], 400))
        chances = np.array([density(y) for y in values])
        assert chances.sum() == pytest.approx(1, abs=1e-9)
        assert drawn.mean() == pytest.approx(chances @ values, abs=5 * drawn.std() / 4000**0.5)
        return
    low, high = (0.0, 1.0) if likelihood["family"] == "Beta" else (-60.0, 60.0)
    low = {"LogNormal": 1e-9, "Gamma": 1e-9, "Censored": 0.2}.get(likelihood["family"], low)
    mass = quad(density, low, high, points=[0.5] if low < 0.5 else None, limit=400)[0]
    below = density(0.2) if likelihood["family"] == "Censored" else 0.0
    assert mass + below == pytest.approx(1, abs=2e-3 if likelihood["family"] == "StudentT" else 1e-6)
    middle = quad(density, low, float(np.median(drawn)), limit=400)[0] + below
    assert middle == pytest.approx(0.5, abs=0.05)


def test_the_dense_oracle_is_the_normal_distribution():
    model = model_of({"family": "Gaussian", "noise": 0.5})
    data = rows([0, 0, 1, 3], [0.2, 1.1, np.nan, -0.4])
    found = dense.posterior(model, data, data)
    seen = data.observed()
    mean, covariance = (np.asarray(part, float) for part in dense.prior(model, seen))
    expected = stats.multivariate_normal(mean, covariance + 0.25 * np.eye(3)).logpdf(seen.y)
    assert found.log_evidence == pytest.approx(expected, abs=1e-10)
    whole_mean, whole = (np.asarray(part, float) for part in dense.prior(model, data))
    cross = whole[:, [0, 1, 3]]
    gain = cross @ np.linalg.inv(covariance + 0.25 * np.eye(3))
    np.testing.assert_allclose(found.mean, whole_mean + gain @ (seen.y - mean), atol=1e-10)
    np.testing.assert_allclose(found.covariance, whole - gain @ cross.T, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_quadrature_of_gaussian_data_is_exact(n):
    model = model_of({"family": "Gaussian", "noise": 0.3})
    data = rows([0.0, 0.0, 1.0][:n], [1.4, -0.3, 8.0][:n])
    found, exact = quadrature.posterior(model, data), dense.posterior(model, data, data)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, exact.covariance, atol=1e-6)


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda one: "-".join(map(str, one.values())))
def test_the_particle_filter_agrees_with_quadrature(likelihood):
    model, rng = model_of(likelihood), np.random.default_rng(2)
    y = likelihoods.sample(likelihood, np.array([0.4, 0.4, 1.0]), {"t": np.zeros(3)}, rng)
    data = rows([0.0, 0.0, 1.0], y)
    exact, found = quadrature.posterior(model, data), particles.run(model, data, rng, count=2000)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=6 * found.evidence_error + 1e-3)
    np.testing.assert_allclose(found.mean, exact.mean, atol=6 * found.mean_error.max() + 1e-3)
    np.testing.assert_allclose(found.covariance, exact.covariance, atol=0.1)


def test_one_informative_datum_by_quadrature():
    model = {
        "terms": [{"time": TERMS[0]["time"], "space": {"kind": "Constant", "scale": 1.0}, "scale": 3.0}],
        "mean": {"intercept": 0.0, "features": []},
        "likelihood": {"family": "Binomial", "trials": 1000.0},
    }
    found = quadrature.posterior(model, rows([0.0], [5.0]))
    assert found.mean[0] == pytest.approx(-5.27, abs=0.01)
    assert found.covariance[0, 0] ** 0.5 == pytest.approx(0.44, abs=0.005)
    assert found.log_evidence == pytest.approx(-5.2, abs=0.05)


def test_importance_sampling_finds_a_known_posterior():
    y, noise = 1.7, 0.4
    found = importance.posterior(
        1, lambda z: stats.norm.logpdf(y, importance.value(("normal", 0.5, 2.0), z[0]), noise), np.random.default_rng(3)
    )
    assert found.log_evidence == pytest.approx(stats.norm.logpdf(y, 0.5, (4 + noise**2) ** 0.5), abs=6 * found.error)
    gain = 4 / (4 + noise**2)
    mean = found.weights @ (0.5 + 2 * found.z[:, 0])
    assert mean == pytest.approx(0.5 + gain * (y - 0.5), abs=6 * noise / found.effective**0.5)


def test_the_globe_is_measured_along_its_surface():
    london, paris = np.array([[-0.1276, 51.5072]]), np.array([[2.3522, 48.8566]])
    kernel = {"kind": "GreatCircle", "radius": 6371.0, "kernel": {"kind": "Matern12", "lengthscale": 100.0}}
    assert -100 * np.log(kernels.covariance(kernel, london, paris)[0, 0]) == pytest.approx(343.6, abs=1.0)


def test_a_kernel_that_is_off_moves_the_posterior_by_less_than_its_bound():
    """Against the posterior under a kernel that differs by a known amount, with an outlier that magnifies it."""
    model = model_of({"family": "Gaussian", "noise": 0.5})
    other = model_of(model["likelihood"])
    other["terms"] = [{**TERMS[0], "time": {"kind": "Matern32", "lengthscale": 2.001}}]
    data = rows([0, 0, 1, 3], [0.2, 1.1, 5e5, -0.4])
    gaps = np.linspace(0, 3, 400)[:, None]
    at = [kernels.covariance(one["terms"][0]["time"], gaps, gaps[:1]) for one in (model, other)]
    bound = shift_of(model, data, data, float(np.abs(at[0] - at[1]).max()))
    true, moved = dense.posterior(model, data, data), dense.posterior(other, data, data)
    assert (np.abs(moved.mean - true.mean) <= bound.mean).all()
    assert (np.abs(moved.mean - true.mean) >= bound.mean / 50).any()
    assert (np.abs(moved.covariance - true.covariance) <= bound.covariance).all()
    assert abs(moved.log_evidence - true.log_evidence) <= bound.evidence


def test_seasons_and_ratios_of_stations_change_a_standard_deviation():
    season, t = {"period": 7.0, "weights": [0.3, -0.2]}, np.array([0.0, 1.75, 3.5])
    expected = np.exp([0.3, -0.2, -0.3])
    np.testing.assert_allclose(kernels.amplitude(season, t), expected)
    known = {"noise": 2.0, "season": season, "ratios": [1.0, 4.0]}
    np.testing.assert_allclose(likelihoods.noise_of(known, {"t": t, "station": np.array([0.0, 1.0, 1.0])}),
                               2 * expected / [1, 2, 2])  # fmt: skip
    term, x = {**TERMS[0], "season": season}, np.zeros((3, 1))
    plain = kernels.latent_covariance(TERMS[:1], (t, x), (t, x))
    np.testing.assert_allclose(kernels.latent_covariance([term], (t, x), (t, x)), plain * np.outer(expected, expected))
