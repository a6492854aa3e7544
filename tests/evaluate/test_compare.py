"""Models compared by evidence."""

import jax
import pytest

import seqgp
from streams import snapshots


def run_of(scale, data, forecast=True):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0), scale=scale)
    one = seqgp.Model(kernel=kernel, mean=0.5, likelihood=seqgp.likelihoods.Gaussian(0.3))
    return seqgp.run(seqgp.OnlineSampler(one, particles=16, draws=100), data, key=jax.random.key(0), forecast=forecast)


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
    head, _, first, second = found.table().splitlines()
    assert head == (
        "| model | log evidence | difference | weight | CRPS | CRPS difference | log score | log score difference "
        "| 95% coverage |"
    )
    assert first.startswith("| true |")
    assert second.count("|") == head.count("|")


def test_what_no_run_has_is_no_column():
    data = snapshots()[:2]
    runs = {name: run_of(scale, data, forecast=False) for name, scale in (("small", 0.1), ("true", 1.0))}
    assert seqgp.compare(runs).table().splitlines()[0] == "| model | log evidence | difference | weight |"
    without = {
        name: run._replace(infos=[one._replace(log_evidence=None) for one in run.infos]) for name, run in runs.items()
    }
    assert "nan" not in seqgp.compare(without).table()


def test_runs_that_cannot_be_compared_are_named():
    data = snapshots()
    for no_runs in ([1, 2], {"one": 1, "two": 2}):
        with pytest.raises(seqgp.DataError, match="expected a dictionary of runs by name"):
            seqgp.compare(no_runs)
    with pytest.raises(seqgp.DataError, match="expected two or more"):
        seqgp.compare({"one": run_of(1.0, data[:2])})
    with pytest.raises(seqgp.DataError, match="end at different times"):
        seqgp.compare({"one": run_of(1.0, data[:2]), "other": run_of(1.0, data[:3])})
