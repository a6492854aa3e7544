"""A run on disk: resumed bit for bit, broken files named, one writer at a time."""

import errno
import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import seqgp
from runs import key, model, same, sampler, snapshots
from seqgp.io import files
from seqgp.io.errors import DamagedError
from seqgp.io.lock import locked
from seqgp.io.manifest import _checksum
from seqgp.io.serialise import encode


def test_reading_gives_what_was_sampled(made):
    store = seqgp.Store(made[1])
    assert len(store) == 4
    assert store.times == [s.t for s in snapshots(4)]
    last = store.latest()
    assert same(last.state, made[0].state)
    assert same(last.info, made[0].infos[-1])
    assert same(tuple(last.snapshot), tuple(snapshots(4)[-1]))
    assert store[0.1].number == 2
    assert store[0.1].state.t == 0.1
    np.testing.assert_allclose(last.summary.row("mean"), np.mean(last.state.latent, axis=0))
    assert store.model.fingerprint() == model().fingerprint()


def test_without_store_the_draws_are_the_same(made):
    assert same(seqgp.run(sampler(), snapshots(4), key()).state, made[0].state)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_resumed_is_bit_identical(made, tmp_path, stop):
    seqgp.run(sampler(), snapshots(stop), key(), store=tmp_path / "run")
    resumed = seqgp.run(sampler(), snapshots(4), store=tmp_path / "run")
    assert same(resumed.state, made[0].state)
    assert [info.step for info in resumed.infos] == [1, 2, 3, 4]
    assert [info.ess for info in resumed.infos] == [info.ess for info in made[0].infos]


@pytest.mark.parametrize("settings", [{"latent": seqgp.Grid()}, {"tau": 2}, {"updates": "informed"}])
def test_other_choices_resume_bit_identically(tmp_path, settings):
    straight = seqgp.run(sampler(**settings), snapshots(3), key(), store=tmp_path / "a")
    seqgp.run(sampler(**settings), snapshots(2), key(), store=tmp_path / "b")
    assert same(seqgp.run(sampler(**settings), snapshots(3), store=tmp_path / "b").state, straight.state)


def test_a_finished_run_is_returned_as_it_is(made, folder):
    again = seqgp.run(sampler(), snapshots(4), key(), store=folder)
    assert same(again.state, made[0].state)
    assert len(again.infos) == 4


def test_keep_leaves_summaries_of_the_rest(made, tmp_path):
    kept = seqgp.run(sampler(), snapshots(4), key(), store=tmp_path / "run", keep=2)
    assert same(kept.state, made[0].state)
    store = seqgp.Store(tmp_path / "run")
    assert [step.whole for step in store] == [False, False, True, True]
    assert len(kept.infos) == 2
    first, full = store[0.0], seqgp.Store(made[1])[0.0]
    assert first.path.stat().st_size < full.path.stat().st_size
    np.testing.assert_array_equal(first.summary.latent, full.summary.latent)
    with pytest.raises(seqgp.StoreError, match="only the summary of step 1"):
        first.state
    assert store.check() == []


def test_a_step_lists_no_folder_however_many_there_are(tmp_path, monkeypatch):
    listed, after = [], []

    def counting(function):
        def counted(path="."):
            listed.extend([path] if str(path).startswith(str(tmp_path)) else [])
            return function(path)

        return counted

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))
    seqgp.run(
        sampler(), snapshots(4), key(), store=tmp_path / "run", keep=2, callbacks=lambda *_: after.append(len(listed))
    )
    assert after[0] == after[-1] > 0


def test_any_later_iterable_goes_on(made, tmp_path):
    seqgp.run(sampler(), iter(snapshots(2)), key(), store=tmp_path / "run")
    resumed = seqgp.run(sampler(), (s for s in snapshots(4)[2:]), store=tmp_path / "run")
    assert same(resumed.state, made[0].state)


def test_changed_or_unknown_data_are_refused(folder):
    changed = snapshots(4)
    changed[1] = seqgp.Snapshot(changed[1].t, changed[1].x, changed[1].y + 1)
    with pytest.raises(seqgp.DataError, match=r"the data at t = 0\.1 are not those that were stored"):
        seqgp.run(sampler(), changed, store=folder)
    between = [*snapshots(1), seqgp.Snapshot(0.05, snapshots(1)[0].x, snapshots(1)[0].y)]
    with pytest.raises(seqgp.DataError, match=r"t = 0\.05 is before the last stored time"):
        seqgp.run(sampler(), between, store=folder)


def test_another_model_sampler_or_key_is_refused_with_what_differs(folder):
    other = seqgp.SequentialSampler(model(high=4.0), draws=20, chains=2, warmup=10, thin=1)
    with pytest.raises(seqgp.StoreError, match=r"another model: kernel was .*high=3\.0.* now .*high=4\.0"):
        seqgp.run(other, snapshots(4), key(), store=folder)
    with pytest.raises(seqgp.StoreError, match="another sampler: draws was 20, now 40"):
        seqgp.run(sampler(draws=40), snapshots(4), key(), store=folder)
    with pytest.raises(seqgp.StoreError, match="another key"):
        seqgp.run(sampler(), snapshots(4), jax.random.key(8), store=folder)


def test_another_version_is_said(folder):
    _edit(folder, lambda m: m["versions"].update(jax="0.0.1"))
    with pytest.warns(UserWarning, match=r"begun with jax 0\.0\.1"):
        seqgp.run(sampler(), snapshots(4), store=folder)


@pytest.mark.parametrize("written, message", [(3, "later than this version"), (0, "never released"), ("x", "later")])
def test_other_formats_are_refused(folder, written, message):
    _edit(folder, lambda m: m.update(format=written))
    with pytest.raises(seqgp.StoreError, match=message):
        seqgp.Store(folder).latest()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "\0\1"])
def test_a_broken_manifest_is_named(folder, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        seqgp.Store(folder).latest()


def test_no_run_here(tmp_path):
    with pytest.raises(seqgp.StoreError, match="no run here"):
        seqgp.Store(tmp_path).latest()
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(seqgp.StoreError, match="holds other things"):
        seqgp.run(sampler(), snapshots(1), key(), store=tmp_path)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-2000])


def _flip(path):
    content = bytearray(path.read_bytes())
    place = content.index(b"state/latent.npy") + 400
    content[place] ^= 0xFF
    path.write_bytes(bytes(content))


def _empty(path):
    path.write_bytes(b"")


def _foreign(path):
    np.savez(path, a=np.ones(3))


def _pickled(path):
    np.savez(path, a=np.array([{"run": "code"}], dtype=object))


def _of_another_step(path):
    shutil.copy(path.with_name("000001.npz"), path)


@pytest.mark.parametrize("damage", [_truncate, _flip, _empty, _foreign, _pickled, _of_another_step])
def test_a_broken_file_is_named_and_set_aside(made, folder, damage):
    damage(folder / "steps" / "000004.npz")
    with pytest.raises(DamagedError, match=r"000004\.npz: .*seqgp check"):
        seqgp.run(sampler(), snapshots(4), store=folder)
    store = seqgp.Store(folder)
    assert [found.path.name for found in store.check()] == ["000004.npz"]
    assert [found.path.name for found in store.repair()] == ["000004.npz"]
    assert (folder / "broken" / "000004.npz").exists()
    assert seqgp.Store(folder).check() == []
    assert same(seqgp.run(sampler(), snapshots(4), store=folder).state, made[0].state)


def test_a_step_of_another_run_is_recognised(folder, tmp_path):
    seqgp.run(sampler(), snapshots(1), key(), store=tmp_path / "other")
    shutil.copy(tmp_path / "other" / "steps" / "000001.npz", folder / "steps" / "000001.npz")
    with pytest.raises(DamagedError, match="a step of another run"):
        seqgp.Store(folder)[0.1]


def test_what_is_written_outlives_a_loss_of_power(folder, tmp_path, monkeypatch):
    """A file is synced before it gets its name, and a name before the next step: also those of new folders."""
    done, fsync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        fsync(descriptor)
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))

    def renamed(old, new):
        replace(old, new)
        done.append((os.path.relpath(old, tmp_path), os.path.relpath(new, tmp_path)))

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", renamed)
    state = seqgp.Store(folder).step(1).state
    with seqgp.Store(tmp_path / "new" / "wind").writing(sampler(), key()) as writer:
        done.append("begun")
        writer.append(state, seqgp.Store(folder).step(1).info, snapshots(1)[0])
    begun = done.index("begun")
    assert set(done[:begun]) >= {".", "new", "new/wind"}  # that hold new, wind, and steps with the manifest
    assert done.index(done[begun + 2][0]) == begun + 1
    assert done[begun + 2][1] == "new/wind/steps/000001.npz"
    assert done[begun + 3 :] == ["new/wind/steps"]


@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_all_earlier_steps(made, tmp_path, monkeypatch, when):
    seqgp.run(sampler(), snapshots(2), key(), store=tmp_path / "run")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if when == "write":
            patch.setattr(np.lib.format, "write_array", full)
        else:
            patch.setattr(files.os, when, full)
        with pytest.raises(seqgp.StoreError, match="disk is full"):
            seqgp.run(sampler(), snapshots(4), store=tmp_path / "run")
    assert len(list((tmp_path / "run" / "steps").iterdir())) == 2
    assert seqgp.Store(tmp_path / "run").check() == []
    assert same(seqgp.run(sampler(), snapshots(4), store=tmp_path / "run").state, made[0].state)


def test_a_run_that_fails_at_once_leaves_nothing(tmp_path):
    bad = seqgp.Snapshot(0.0, np.ones((3, 1)), np.ones(3))
    with pytest.raises(seqgp.SeqgpError):
        seqgp.run(sampler(), [bad], key(), store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_second_writer_fails_at_once_and_a_dead_one_does_not_block(folder, tmp_path):
    code = (
        "import sys, pathlib; from seqgp.io.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(seqgp.StoreError, match=rf"in use by process {other.pid} of .* since "):
            seqgp.run(sampler(), snapshots(4), store=folder)
        assert len(seqgp.Store(folder)) == 4  # reading needs no lock
    finally:
        other.kill()  # SIGKILL: it cannot clean up
        other.wait()
    assert (folder / ".holder.json").exists()
    with locked(folder):
        pass


def test_nothing_read_is_unpickled(folder):
    """Every array is readable without pickle, and an archive with an object array is refused."""
    for path in (folder / "steps").iterdir():
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                archive[name]
    objects = {"a": np.array([object()], dtype=object)}
    with pytest.raises(seqgp.StoreError, match="array of Python objects"):
        encode(objects, "snapshot", {})


def _edit(folder, change):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    change(content)
    path.write_text(json.dumps({**content, "sha256": _checksum(content)}))
