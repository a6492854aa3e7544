"""Scores of transformed data against closed forms of the log-normal distribution."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import lognorm
from scoringrules import crps_lognormal

from seqgp.base.transforms import Transform
from seqgp.evaluate.baselines import Baseline
from seqgp.evaluate.point_scores import normal
from seqgp.evaluate.score_table import MODEL, Part, Score
from seqgp.evaluate.transformed import TransformedData, normal_quantiles

MEAN, SD, Y = np.array([0.5, 2.0, 1.0]), np.array([0.4, 0.1, 0.7]), np.array([1.2, 8.0, 0.3])


def test_scores_are_those_of_the_log_normal_distribution():
    drawn = normal_quantiles(Baseline(MEAN, SD))
    found = TransformedData(normal(MEAN, SD), Transform("log"), drawn).scores(np.log(Y))
    exact: Any = lognorm(s=SD, scale=np.exp(MEAN))
    np.testing.assert_allclose(found.log_score, exact.logpdf(Y), rtol=1e-9)
    np.testing.assert_allclose(found.pit, exact.cdf(Y), rtol=1e-9)
    np.testing.assert_allclose(found.median, exact.median(), rtol=1e-9)
    np.testing.assert_allclose(found.mean, exact.mean(), rtol=2e-3)
    np.testing.assert_allclose(found.crps, crps_lognormal(Y, MEAN, SD), rtol=5e-3)


def test_some_of_the_data():
    whole = TransformedData(normal(MEAN, SD), Transform("sqrt"), normal_quantiles(Baseline(MEAN, SD)))
    rows = np.array([2, 0])
    for part, all_of_them in zip(whole.at(rows).scores(np.sqrt(Y[rows])), whole.scores(np.sqrt(Y))):
        np.testing.assert_allclose(part, all_of_them[rows])


def test_zeros_have_no_density_and_are_left_out_of_the_log_score_alone():
    y = np.array([1.2, 0.0, 0.3])
    drawn = normal_quantiles(Baseline(MEAN, SD))
    found = TransformedData(normal(MEAN, SD), Transform("sqrt"), drawn).scores(np.sqrt(y))
    assert np.isnan(found.log_score).tolist() == [False, True, False]
    table = Score.of([Part("filtered", 0, MODEL, 0.0, ["a", "b", "c"], y, found)])
    assert table["filtered"].log_score == pytest.approx(found.log_score[[0, 2]].mean())
    assert table["filtered"].data == 3
    assert "left out of log scores: 1 of 3 data, zeros" in str(table)
