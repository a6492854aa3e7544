"""Models compared by evidence."""

import jax
import pytest

import seqgp
from streams import snapshots


def run_of(scale, data):
    kernel = seqgp.Separable(time=seqgp.Matern32(2.0), space=seqgp.Matern12(1.0), scale=scale)
    one = seqgp.Model(kernel=kernel, mean=0.5, likelihood=seqgp.Gaussian(0.3))
    return seqgp.run(seqgp.OnlineSampler(one, particles=16, draws=100), data, key=jax.random.key(0))


def test_the_true_model_wins_by_the_difference_of_the_evidences():
    data = snapshots()
    runs = {"small": run_of(0.1, data), "true": run_of(1.0, data)}
    found = seqgp.compare(runs)
    assert found.best == "true"
    best, other = found.candidates
    assert other.difference == pytest.approx(runs["small"].infos[-1].log_evidence - runs["true"].infos[-1].log_evidence)
    assert best.weight + other.weight == pytest.approx(1)
    assert best.crps < other.crps
    assert found.steps == len(data) - 1
    assert found.table().splitlines()[2].startswith("| true |")


def test_runs_that_cannot_be_compared_are_named():
    data = snapshots()
    with pytest.raises(seqgp.DataError, match="expected two or more"):
        seqgp.compare({"one": run_of(1.0, data[:2])})
    with pytest.raises(seqgp.DataError, match="end at different times"):
        seqgp.compare({"one": run_of(1.0, data[:2]), "other": run_of(1.0, data[:3])})
