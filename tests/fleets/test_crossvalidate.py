"""Cross-validation: the scores of each fold are those of a run of its own."""

import numpy as np
import pytest

import seqgp
from seqgp.base.errors import SamplerError
from seqgp.evaluate.folds import folds_of
from seqgp.fleets.crossvalidate import crossvalidate
from seqgp.samplers.keys import named


def model():
    kernel = seqgp.Separable(seqgp.kernels.Matern12(2.0), seqgp.kernels.Matern12(1.0), 1.0)
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3))


def sampler():
    return seqgp.OnlineSampler(model(), particles=16, draws=50)


def snapshots():
    rng = np.random.default_rng(0)
    x = rng.random((6, 1)) * 3
    return [seqgp.Snapshot(t, x, np.sin(0.5 * t + x[:, 0]) + 0.3 * rng.normal(size=6)) for t in range(5)]


def test_the_table_has_all_folds(tmp_path):
    found = crossvalidate(sampler(), snapshots(), tmp_path, folds=3, smoothed=False)
    assert found["filtered"].data + sum(np.isnan(one.y).sum() for one in snapshots()) <= 30
    own = [part for part in found.parts if part.forecaster == "this model"]
    assert sum(len(part.y) for part in own) == 30
    for fold in folds_of(snapshots(), "station", 3):
        alone = seqgp.run(sampler(), fold.kept, key=named(0, "fleet", fold.name), store=tmp_path / "again" / fold.name)
        scores = seqgp.score(alone, fold.held_out, ahead=(0,), smoothed=False)
        mine = {(part.t, tuple(part.stations)): part.scores.crps for part in own}
        for part in (part for part in scores.parts if part.forecaster == "this model"):
            np.testing.assert_allclose(mine[part.t, tuple(part.stations)], part.scores.crps, rtol=1e-9)


def test_it_goes_on_where_it_was(tmp_path):
    first = crossvalidate(sampler(), snapshots(), tmp_path, "time", folds=2, ahead=(0, 1), seed=3)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    again = crossvalidate(sampler(), snapshots(), tmp_path, "time", folds=2, ahead=(0, 1), seed=3)
    assert before
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")} == before
    assert str(again) == str(first)
    assert "fold1: filtered" in str(first)


def test_a_first_block_without_a_past_is_not_scored(tmp_path):
    found = crossvalidate(sampler(), snapshots(), tmp_path, "time", folds=2, smoothed=False)
    assert found["filtered"].data == 12
    assert "fold1: filtered: 3 of 3 snapshots are not scored" in str(found)


def test_a_fold_that_fails_is_named(tmp_path):
    data = snapshots()
    counts = seqgp.Model(model().kernel, seqgp.likelihoods.Poisson())
    with pytest.raises(SamplerError, match="crossvalidate: fold1, step 1: "):
        crossvalidate(seqgp.OnlineSampler(counts, particles=16, draws=16), data, tmp_path, folds=3)


def test_a_cluster_gives_the_same_scores(tmp_path):
    distributed = pytest.importorskip("distributed")
    from seqgp.fleets.cluster import local_cluster

    here = crossvalidate(sampler(), snapshots(), tmp_path / "here", folds=2)
    with local_cluster(1) as local, distributed.Client(local) as client:
        there = crossvalidate(sampler(), snapshots(), tmp_path / "there", folds=2, client=client)
    assert str(there) == str(here)
