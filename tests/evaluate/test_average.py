"""Averages of models against closed forms: weights, mixtures and their scores."""

import jax
import numpy as np
import pytest
from numpyro import distributions as dist
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import seqgp
from seqgp.evaluate.average import stacking_weights


def sampler(noise):
    """Data that are noise alone, but for a latent function of scale 1e-4: predictions are N(0, noise²)."""
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), 1e-4)
    model = seqgp.Model(kernel=kernel, mean=0.0, likelihood=seqgp.likelihoods.Gaussian(noise))
    return seqgp.OnlineSampler(model, particles=16, draws=400)


X = np.array([[0.0], [1.0], [2.0]])


@pytest.fixture(scope="module")
def data():
    y = np.random.default_rng(3).normal(size=(14, 3))
    y[10:] *= 2.2
    y *= np.sqrt(1.5 / np.mean(y**2))  # about as well explained by both noises
    return [seqgp.Snapshot(float(t), X, values) for t, values in enumerate(y)]


@pytest.fixture(scope="module")
def runs(data):
    return {
        f"{noise:g}": seqgp.run(sampler(noise), data, key=jax.random.key(0), progress=False) for noise in (0.9, 1.8)
    }


def test_weights_by_evidence_are_posterior_probabilities(runs, data):
    """The latent function is nothing: the evidence is the density of independent normals."""
    y = np.array([one.y for one in data])
    log = {name: norm(0, float(name)).logpdf(y).sum() for name in runs}
    expected = 1 / (1 + np.exp(log["1.8"] - log["0.9"]))
    assert 0.001 < expected < 0.999
    found = seqgp.average(runs, by="evidence")
    assert found.weights["0.9"] == pytest.approx(expected, rel=1e-4)
    assert sum(found.weights.values()) == pytest.approx(1)


def test_weights_by_forecasts_maximise_the_log_score_of_the_mixture(runs, data):
    y = np.array([one.y for one in data])[1:]
    p, q = (norm(0, noise).logpdf(y).sum(axis=1) for noise in (0.9, 1.8))
    best = minimize_scalar(
        lambda w: -np.mean(np.logaddexp(np.log(w) + p, np.log1p(-w) + q)), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    assert 0.05 < best.x < 0.95
    found = seqgp.average(runs)
    assert found.weights["0.9"] == pytest.approx(best.x, abs=0.01)
    assert found.weights != seqgp.average(runs, by="evidence").weights


def test_stacking_against_convex_optimisation():
    """Of three experts the optimum is where each gradient is 1, or less where the weight is 0."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(4000) < 0.3, rng.normal(-2, 1, 4000), rng.normal(2, 1, 4000))
    scores = np.stack([norm(-2, 1).logpdf(y), norm(2, 1).logpdf(y), norm(0, 8).logpdf(y)], axis=1)
    weights = stacking_weights(scores)
    gain = np.mean(np.exp(scores) / (np.exp(scores) @ weights)[:, None], axis=0)
    assert gain.max() < 1 + 2e-6
    assert weights[0] == pytest.approx(0.3, abs=0.03)
    assert weights[2] < 0.01
    far = np.array([[-1e4, -1e4 - 3.0]] * 5)  # densities that underflow
    np.testing.assert_allclose(stacking_weights(far), [1, 0], atol=1e-3)


def test_the_mixture_has_the_scores_of_a_mixture(runs, data):
    weights = {"0.9": 0.3, "1.8": 0.7}
    found = seqgp.average(runs, by=weights)
    assert found.by == "given"
    predicted = found.predict(jax.random.key(1), X, 20.0)
    y = np.array([0.4, -3.0, np.nan])
    each = np.array([w * norm(0, float(name)).pdf(y) for name, w in weights.items()])
    jointly = sum(w * norm(0, float(name)).pdf(y[:2]).prod() for name, w in weights.items())
    np.testing.assert_allclose(predicted.log_score(y, pointwise=True)[:2], np.log(each.sum(axis=0))[:2], atol=2e-3)
    assert predicted.log_score(y) == pytest.approx(np.log(jointly), abs=2e-3)
    draws = np.asarray(predicted.y)
    assert draws.shape == (400, 3)
    variance = 0.3 * 0.9**2 + 0.7 * 1.8**2
    fourth = 3 * (0.3 * 0.9**4 + 0.7 * 1.8**4) / variance**2
    # 1200 values: five standard errors of their variance
    assert draws.var() == pytest.approx(variance, rel=5 * np.sqrt((fourth - 1) / draws.size))


def test_a_weight_of_zero_leaves_a_run_out(runs):
    alone = seqgp.average(runs, by={"0.9": 2.0, "1.8": 0.0}).predict(jax.random.key(1), X)
    y = np.array([0.4, -3.0, 0.0])
    np.testing.assert_allclose(alone.log_score(y), norm(0, 0.9).logpdf(y).sum(), atol=2e-3)


def test_runs_with_different_transforms_are_mixed_in_the_units_of_the_data(tmp_path):
    """One run is of log y, the other of y: of the second a weight of zero, and the density is log-normal."""
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(12, 3))
    plain = [seqgp.Snapshot(float(t), X, np.exp(values)) for t, values in enumerate(logs)]
    logged = [seqgp.Snapshot(float(t), X, values) for t, values in enumerate(logs)]
    runs = {}
    for name, data, transform in (("log", logged, "log"), ("plain", plain, None)):
        configuration = {"data": {"transform": transform}}
        runs[name] = seqgp.run(
            sampler(1.0),
            data,
            key=jax.random.key(0),
            store=tmp_path / name,
            configuration=configuration,
            progress=False,
        )
    with pytest.raises(seqgp.DataError, match="differently transformed"):
        seqgp.average(runs, by="evidence")
    found = seqgp.average(runs, by={"log": 0.5, "plain": 0.5}).predict(jax.random.key(1), X)
    y = np.array([0.5, 1.5, 4.0])
    log_normal = np.exp(np.asarray(dist.LogNormal(0.0, 1.0).log_prob(y)))
    expected = np.log(0.5 * log_normal + 0.5 * norm(0, 1).pdf(y))
    np.testing.assert_allclose(found.log_score(y, pointwise=True), expected, atol=3e-3)
    weights = seqgp.average(runs).weights
    assert weights["log"] > 0.9


def test_what_cannot_be_averaged_is_refused(runs, data):
    with pytest.raises(seqgp.DataError, match="1 run was given"):
        seqgp.average({"a": runs["0.9"]})
    with pytest.raises(seqgp.DataError, match=r"by = 'luck', expected 'evidence', 'forecasts' or a weight"):
        seqgp.average(runs, by="luck")
    with pytest.raises(seqgp.DataError, match=r"weights are given for a, and the runs are 0.9, 1.8"):
        seqgp.average(runs, by={"a": 1.0})
    with pytest.raises(seqgp.DataError, match="at least 0 with a positive sum"):
        seqgp.average(runs, by={"0.9": -1.0, "1.8": 2.0})
    without = {name: run._replace(infos=run.infos[:5]) for name, run in runs.items()}
    with pytest.raises(seqgp.DataError, match="forecast 4 of the same steps, and weights from forecasts need 10"):
        seqgp.average(without)


def test_evidence_and_forecasts_that_disagree_are_told(runs):
    """Scores as they might be: the second run has more evidence lost at the first step than it gains later."""
    first, second = runs["0.9"], runs["1.8"]

    def told(run, evidence, crps, log_score):
        infos = [
            info._replace(
                log_evidence=evidence,
                log_evidence_se=0.1,
                scores={"crps": crps + 0.01 * (k % 2), "log_score": log_score + 0.1 * (k % 3), "coverage_95": 0.9},
            )
            for k, info in enumerate(run.infos)
        ]
        return run._replace(infos=infos)

    found = seqgp.compare({"offset": told(first, -100.0, 1.14, -3.0), "plain": told(second, -570.0, 1.0, -2.5)})
    assert found.best == "offset"
    other = found.candidates[1]
    assert other.crps_difference.value == pytest.approx(-0.14)
    assert other.log_score_difference.value == pytest.approx(0.5)
    (said,) = found.disagreements()
    assert "The evidence prefers offset to plain by 470.0" in said
    assert "plain forecasts better: its CRPS is lower by 0.14" in said
    assert "(12." in said
    assert "log score is higher by 0.5" in said
    assert said in str(found)
    agree = seqgp.compare({"offset": told(first, -100.0, 1.0, -2.5), "plain": told(second, -570.0, 1.14, -3.0)})
    assert agree.disagreements() == []


def test_paired_errors_are_those_of_the_differences(runs):
    """Scores that vary together differ by much less than their own errors."""
    found = seqgp.compare(runs)
    one, other = (np.array([info.scores["crps"] for info in run.infos[1:]]) for run in runs.values())
    sign = 1 if found.best == "1.8" else -1
    difference = found.candidates[1].crps_difference
    assert difference.value == pytest.approx(sign * np.mean(one - other))
    assert difference.se < np.std(one) / np.sqrt(len(one))
