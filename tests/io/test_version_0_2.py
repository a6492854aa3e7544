"""Runs that version 0.2.0 wrote are opened, read, predicted from, smoothed and continued."""

import shutil

import jax
import numpy as np
import pytest

import seqgp
import version_0_2 as written
from seqgp.io.serialise import decode
from seqgp.samplers.online.quadratics import Memory, QuadraticFit


@pytest.fixture(params=["stations", "solver"])
def name(request):
    return request.param


@pytest.fixture
def folder(name, tmp_path):
    shutil.copytree(written.WRITTEN / name, tmp_path / name)
    return tmp_path / name


def test_it_is_opened_and_read(name, folder):
    store = seqgp.Store(folder)
    assert store.check() == []
    assert store.times == [0.0, 0.5]
    step = store.latest()
    assert step.state.particles.z.shape[0] == 16
    assert step.state.particles.log_evidence() == pytest.approx(step.state.log_evidence)
    assert step.info.ess <= 16
    assert step.info.log_evidence == step.state.log_evidence
    assert {one.kind for one in step.info.rejuvenations} <= {"importance", "moves"}
    assert (step.state.linearised_snapshots[-1] is None) == (name == "stations")


def test_it_goes_on_and_answers(name, folder):
    """Three steps are there afterwards; the past is read from those that 0.2 wrote."""
    sampler, x = written.sampler(name), written.snapshots(1)[0].x
    run = seqgp.run(sampler, written.snapshots(3), store=folder)
    assert run.state.step == 3
    assert np.isfinite(run.infos[-1].log_evidence)
    assert [step.number for step in seqgp.Store(folder)] == [1, 2, 3]
    assert seqgp.Store(folder).check() == []
    f = seqgp.smooth(jax.random.key(1), sampler, run.state, [0.0], x=x[:1] + 0.01).latent[0]
    assert f.shape == (8, 1)
    assert np.isfinite(f).all()
    if name == "stations":
        assert np.isfinite(seqgp.predict(jax.random.key(1), sampler.model, run.state, x, 1.5).y).all()


def test_the_past_of_a_bounded_history_is_read():
    """What 0.2 called CloudQuadratic is a QuadraticFit."""
    stored = {
        "$class": "Memory",
        "fields": {
            "anchor": 10,
            "log_evidence": {
                "$class": "CloudQuadratic",
                "fields": {
                    "centre": {"$array": "c"}, "scale": {"$array": "s"}, "coefficients": {"$array": "k"},
                    "residual": 0.1,
                },
            },
        },
    }  # fmt: skip
    arrays = {"c": np.zeros(1), "s": np.ones(1), "k": np.array([1.0, 2.0, 3.0])}
    found = decode(stored, arrays)
    assert isinstance(found, Memory)
    assert isinstance(found.log_evidence, QuadraticFit)
    assert found.log_evidence.at(np.array([[2.0]])) == pytest.approx(1.0 + 2.0 * 2.0 + 3.0 * 4.0)
