"""Runs that version 0.1.0 wrote are opened, read, predicted from and continued."""

import shutil
import warnings

import numpy as np
import pytest

import seqgp
import version_0_1 as written


@pytest.fixture(params=["ready_made", "own"])
def name(request):
    return request.param


@pytest.fixture
def as_written(name, tmp_path):
    shutil.copytree(written.WRITTEN / name, tmp_path / name)
    return tmp_path / name


@pytest.fixture
def folder(name, tmp_path):
    return with_the_papers_carry(name, tmp_path)


def with_the_papers_carry(name, tmp_path):
    """The run as if it had been given ``carry="paper"``, the one that is left."""
    folder = shutil.copytree(written.WRITTEN / name, tmp_path / f"{name}-paper")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("JointCarry()", "PaperCarry()"))
    return folder


def test_it_is_opened_and_read(name, as_written):
    store = seqgp.Store(as_written)
    assert store.check() == []
    assert store.times == [0.0, 0.1]
    np.testing.assert_array_equal(store[0.1].snapshot.y, written.snapshots(2)[1].y)
    assert store.latest().state.z.shape == (8, len(written.MODELS[name]().names))
    assert (store.model is None) == (name == "own")


def test_it_is_predicted_from(name, as_written):
    x = written.snapshots(1)[0].x
    state = seqgp.Store(as_written).latest().state
    found = seqgp.predict(written.jax.random.key(1), written.MODELS[name](), state, x, 0.2)
    assert np.isfinite(found.y).all()


def test_a_carry_that_is_gone_is_named(name, as_written):
    with pytest.raises(
        seqgp.StoreError, match=r"carry=JointCarry\(\)\), .* give all data to OnlineSampler in another folder"
    ):
        seqgp.run(written.sampler(name), written.snapshots(3), store=as_written)


def test_it_is_continued(name, folder):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        run = seqgp.run(written.sampler(name), written.snapshots(3), store=folder)
    said = [str(warning.message) for warning in heard]
    # The names of functions of one's own can be compared, and nothing more: that is said.
    assert any("their code cannot be compared" in text for text in said) == (name == "own")
    assert run.state.step == 3
    store = seqgp.Store(folder)
    assert store.manifest.model == written.MODELS[name]().fingerprint()
    assert not store.manifest.by_names
    assert [step.number for step in store] == [1, 2, 3]
    assert store.check() == []


def test_another_model_is_refused(name, folder):
    with pytest.raises(seqgp.StoreError, match=r"another model: kernel was .*high=3\.0.* now .*high=4\.0"):
        seqgp.run(written.sampler(name, high=4.0), written.snapshots(3), store=folder)
    other = "own" if name == "ready_made" else "ready_made"
    with pytest.raises(seqgp.StoreError, match="another model"):
        seqgp.run(written.sampler(other), written.snapshots(3), store=folder)


def test_once_continued_the_code_of_functions_counts(tmp_path):
    folder = with_the_papers_carry("own", tmp_path)
    with pytest.warns(UserWarning, match="their code cannot be compared"):
        seqgp.run(written.sampler("own"), written.snapshots(3), store=folder)
    model = written.own()
    changed = seqgp.Model(model.kernel, model.likelihood, seqgp.ScaledSigmoid(0, 1).through(_own_square), model.jitter)
    sampler = seqgp.SequentialSampler(changed, draws=8, chains=2, warmup=4)
    with pytest.raises(seqgp.StoreError, match="another model: mean was"):
        seqgp.run(sampler, written.snapshots(3), store=folder)


def _own_square(value):
    return value**3


_own_square.__qualname__ = "own.<locals>.<lambda>"  # the same name, another function
