"""Scores of held-out data against dense Gaussian algebra at known parameters, and their standard errors."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

import seqgp
from oracles import dense
from streams import snapshots

OUT = [0, 3]


def known():
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0), scale=1.0)
    return seqgp.Model(kernel=kernel, mean=0.5, likelihood=seqgp.likelihoods.Gaussian(0.3))


def without(data, rows):
    return [seqgp.Snapshot(s.t, np.delete(s.x, rows, 0), np.delete(s.y, rows)) for s in data]


def only(data, rows):
    return [seqgp.Snapshot(s.t, s.x[rows], s.y[rows]) for s in data]


@pytest.fixture(scope="module")
def data():
    found = snapshots(missing=0.1, seed=3)
    return without(found, OUT), only(found, OUT)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=100)
    return seqgp.run(sampler, data[0], key=jax.random.key(0), store=tmp_path_factory.mktemp("run") / "stations")


@pytest.fixture(scope="module")
def found(run, data):
    return seqgp.score(run, data[1], ahead=(0, 1, 3))


def gaussian(train, one):
    """Mean and standard deviation of new data, by conditioning one joint normal distribution."""

    def covariance(t, x, u, w):
        lag = np.abs(t[:, None] - u[None]) / 2.0
        apart = np.linalg.norm(x[:, None] - w[None], axis=-1)
        return (1 + 3**0.5 * lag) * np.exp(-(3**0.5) * lag) * np.exp(-apart)

    rows = dense.Rows.of([(s.t, s.x, s.y, None) for s in train]).observed()
    new_t = np.full(len(one.x), one.t)
    inner = covariance(rows.t, rows.x, rows.t, rows.x) + 0.09 * np.eye(len(rows.t))
    cross = covariance(rows.t, rows.x, new_t, one.x)
    weights = np.linalg.solve(inner, cross)
    variance = 1.0 - np.sum(cross * weights, axis=0) + 0.09
    return 0.5 + weights.T @ (rows.y - 0.5), np.sqrt(variance)


def normal_crps(y, mean, sd):
    white = (y - mean) / sd
    return sd * (white * (2 * norm.cdf(white) - 1) + 2 * norm.pdf(white) - 1 / np.sqrt(np.pi))


@pytest.mark.parametrize(("way", "ahead"), [("filtered", 0), ("1 step ahead", 1), ("3 steps ahead", 3)])
def test_predictions_at_held_out_stations_are_those_of_dense_algebra(found, data, way, ahead):
    train, held_out = data
    parts = [part for part in found.parts if (part.way, part.forecaster) == (way, "this model")]
    assert len(parts) == len(held_out) - ahead
    for part in parts:
        number = [s.t for s in train].index(part.t)
        mean, sd = gaussian(train[: number + 1 - ahead], held_out[number])
        seen = ~np.isnan(part.y)
        exact = (mean, mean, normal_crps(part.y, mean, sd), norm.logpdf(part.y, mean, sd), norm.cdf(part.y, mean, sd))
        for column, value in zip(part.scores, exact):
            np.testing.assert_allclose(column[seen], value[seen], rtol=1e-7, atol=1e-8)
            assert np.isnan(column[~seen]).all()


def test_smoothed_predictions_use_all_data(found, data):
    """The standard error of a mean of 100 draws is a tenth of sd; 24 data, and 4.5 errors: a false alarm in 6000."""
    train, held_out = data
    parts = [part for part in found.parts if (part.way, part.forecaster) == ("smoothed", "this model")]
    assert len(parts) == len(held_out)
    scores, exact_scores = [], []
    for part, one in zip(parts, held_out):
        mean, sd = gaussian(train, one)
        seen = ~np.isnan(part.y)
        assert (np.abs(part.scores.mean - mean)[seen] < 0.45 * sd[seen]).all()
        scores += part.scores.log_score[seen].tolist()
        exact_scores += norm.logpdf(part.y, mean, sd)[seen].tolist()
    np.testing.assert_allclose(np.mean(scores), np.mean(exact_scores), atol=0.1)


def test_the_table_has_means_over_the_same_data(found):
    own, simple = found["filtered"], found["filtered", "AR(1)"]
    assert own.data == simple.data
    frame = found.frame()
    rows = frame[frame.prediction == "filtered"]
    common = rows.groupby(["t", "station"]).filter(lambda group: len(group) == rows.forecaster.nunique())
    mine, other = (common[common.forecaster == name] for name in ("this model", "AR(1)"))
    np.testing.assert_allclose(own.rmse, np.sqrt(np.mean((mine.y - mine["mean"]) ** 2)))
    np.testing.assert_allclose(own.mae, np.mean(np.abs(mine.y - mine["median"])))
    np.testing.assert_allclose(own.coverage[0.8], np.mean((mine.pit > 0.1) & (mine.pit < 0.9)))
    np.testing.assert_allclose(simple.crps_difference.value, other.crps.mean() - mine.crps.mean())
    assert own.crps_difference == (0.0, 0.0)
    assert simple.crps_difference.se > 0
    assert sum(found.pit_histogram("smoothed")) == len(found.pit("smoothed"))
    assert "| filtered | this model |" in str(found)


def test_a_run_in_memory_has_its_last_state_and_the_smoothed_ones(run, data):
    found = seqgp.score(run._replace(store=None), data[1], baselines=False)
    assert [part.t for part in found.parts if part.way == "filtered"] == [data[1][-1].t]
    assert found["smoothed"].data > 15
    assert "filtered: 11 of 12 snapshots are not scored" in str(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run, held: (run, run.state.snapshots), "has seen a value at t = .*ahead=\\(1,\\), smoothed=False"),
        (lambda run, held: (run, [1.0]), "expected snapshots, got float among them"),
        (lambda run, held: (run, [held[0], held[0]]), "two snapshots at t = "),
        (lambda run, held: (run, [seqgp.Snapshot(1.0, [[0.1]], [1.0])]), "x has 1 columns .* the run have 2"),
        (lambda run, held: (run, [seqgp.Snapshot(1.0, [[0.1, 0.2]], [np.nan])]), "held_out has no value"),
        (lambda run, held: (3, held), "expected a run or a seqgp.Store, got int"),
    ],
)
def test_what_cannot_be_scored_is_named(run, data, change, said):
    with pytest.raises(seqgp.DataError, match=said):
        seqgp.score(*change(run, data[1]))


def test_steps_ahead_are_whole_numbers(run, data):
    for wrong in ("1", (0.5,), (-1,), (True,)):
        with pytest.raises(seqgp.DataError, match="give whole numbers of steps"):
            seqgp.score(run, data[1], ahead=wrong)  # pyright: ignore[reportArgumentType]
