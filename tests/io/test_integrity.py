"""What a run promises about its files: every loss and edit is noticed, and what can be restored is."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import seqgp
from runs import key, model, same, sampler, snapshots
from seqgp.io import files, integrity
from seqgp.io.errors import DamagedError, PassingError
from seqgp.io.lock import locked
from seqgp.io.step import Step

OLD = Path(__file__).with_name("data") / "version_0_1_0"


@pytest.fixture
def old(tmp_path):
    shutil.copytree(OLD, tmp_path / "old")
    return tmp_path / "old" / "run"


def names(found):
    return [damage.path.name for damage in found]


def test_every_flipped_bit_of_the_manifest_is_noticed(folder):
    path = folder / "manifest.json"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(8 * len(whole), 300, replace=False):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(bytes(flipped))
        try:
            same_content = json.loads(bytes(flipped)) == json.loads(whole)
        except ValueError:
            same_content = False
        if same_content:  # a space turned into another kind of space
            continue
        with pytest.raises(seqgp.StoreError, match=r"manifest\.json"):
            seqgp.Store(folder).latest()
        assert names(seqgp.Store(folder).check()) == ["manifest.json"]
    path.write_bytes(whole)
    assert seqgp.Store(folder).check() == []


def test_an_edited_manifest_is_noticed_and_restored(made, folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"high": 3', '"high": 9'))
    with pytest.raises(DamagedError, match="checksum is wrong"):
        seqgp.Store(folder).model
    assert names(seqgp.Store(folder).repair()) == ["manifest.json"]
    assert seqgp.Store(folder).model.fingerprint() == model().fingerprint()
    assert seqgp.Store(folder).check() == []
    assert len(seqgp.Store(folder)) == 4
    assert same(seqgp.run(sampler(), snapshots(4), key(), store=folder).state, made[0].state)


@pytest.mark.parametrize("spoil", ["gone", "foreign", "folder", "link"])
def test_steps_without_their_manifest_are_refused_and_adopted(made, folder, tmp_path, spoil):
    path = folder / "manifest.json"
    path.unlink()
    if spoil == "foreign":
        seqgp.run(sampler(), snapshots(1), key(), store=tmp_path / "other")
        shutil.copy(tmp_path / "other" / "manifest.json", path)
    elif spoil == "folder":
        path.mkdir()
    elif spoil == "link":
        path.symlink_to("/dev/zero")
    with pytest.raises(DamagedError, match="--repair"):
        seqgp.run(sampler(), snapshots(4), key(), store=folder)
    assert names(seqgp.Store(folder).check()) == ["manifest.json"]
    seqgp.Store(folder).repair()
    assert len(seqgp.Store(folder)) == 4
    assert same(seqgp.run(sampler(), snapshots(4), key(), store=folder).state, made[0].state)


def test_a_missing_middle_step_is_noticed_and_the_run_goes_on(made, folder):
    (folder / "steps" / "000002.npz").unlink()
    store = seqgp.Store(folder)
    assert names(store.check()) == ["000002.npz"]
    assert "missing" in store.check()[0].why
    store.repair()
    assert store.check() == []
    assert same(seqgp.run(sampler(), snapshots(4), key(), store=folder).state, made[0].state)
    later = seqgp.run(sampler(), snapshots(5), key(), store=folder)
    assert later.state.step == 5
    between = seqgp.Snapshot(0.27, snapshots(1)[0].x, snapshots(1)[0].y)  # no step is missing there
    with pytest.raises(seqgp.DataError, match="never seen"):
        seqgp.run(sampler(), [between], store=folder)


def test_a_broken_middle_step_is_set_aside_and_the_run_goes_on(made, folder):
    path = folder / "steps" / "000002.npz"
    path.write_bytes(path.read_bytes()[:-500])
    seqgp.Store(folder).repair()
    assert seqgp.Store(folder).check() == []
    assert same(seqgp.run(sampler(), snapshots(4), key(), store=folder).state, made[0].state)


def test_missing_steps_are_noticed(folder):
    shutil.rmtree(folder / "steps")
    assert names(seqgp.Store(folder).check()) == ["steps"]


@pytest.mark.parametrize("name", ["²²²²²².npz", "1.npz", "0000001.npz", "000000.npz", "00001x.npz", "notes.txt"])
def test_odd_names_are_no_steps(folder, name):
    shutil.copy(folder / "steps" / "000001.npz", folder / "steps" / name)
    assert seqgp.Store(folder).times == [s.t for s in snapshots(4)]
    assert names(seqgp.Store(folder).check()) == [name]


def test_a_reader_sees_no_damage_while_a_writer_prunes(folder, monkeypatch):
    """The file of a step is replaced in the middle of reading it: what is read is one of the two, whole."""
    store, replaced = seqgp.Store(folder), []
    decode_from = Step._decode_from

    def prune_first(self, container, part):
        if part == "state" and not replaced:
            replaced.append(True)
            Step(self.path, self._manifest).shrink()
        return decode_from(self, container, part)

    monkeypatch.setattr(Step, "_decode_from", prune_first)
    step = store.step(1)
    assert step.whole
    assert step.state.t == 0.0
    assert replaced
    with pytest.raises(seqgp.StoreError, match="only the summary") as caught:
        store.step(1).state
    assert not isinstance(caught.value, DamagedError)


def test_checks_beside_a_pruning_writer_find_nothing(made, folder):
    """A hundred rewrites of a step in another thread, with checks all the time."""
    whole = seqgp.Store(made[1]).step(1).path.read_bytes()
    path, ended, found = folder / "steps" / "000001.npz", threading.Event(), []
    manifest = seqgp.Store(folder).manifest

    def write():
        for _ in range(100):
            files.write_atomically(path, lambda file: file.write(whole))
            Step(path, manifest).shrink()
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        found += seqgp.Store(folder).check()
    writer.join()
    assert found == []


def test_unfinished_writes_are_no_damage_and_are_removed(made, folder):
    left = folder / "steps" / ".000005.npz-abc.partial"
    left.write_bytes(b"half")
    (folder / ".manifest.json-abc.partial").write_bytes(b"half")
    assert seqgp.Store(folder).check() == []
    seqgp.run(sampler(), snapshots(4), key(), store=folder)
    assert not left.exists()


@pytest.mark.parametrize("name", [".holder.json", ".lock", "manifest.json", "steps/000005.npz"])
def test_no_file_of_a_store_is_written_through_a_link(folder, tmp_path, name):
    """A run from a stranger cannot make seqgp overwrite a file of the user's."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(precious)
    with contextlib.suppress(seqgp.SeqgpError):
        seqgp.run(sampler(), snapshots(5), key(), store=folder)
    with contextlib.suppress(seqgp.SeqgpError):
        seqgp.Store(folder).repair()
    assert precious.read_text() == "precious"


def test_a_folder_of_a_store_that_is_a_link_is_refused(folder, tmp_path):
    """Neither are steps written to another folder, nor are its files set aside."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / "steps", elsewhere)
    (elsewhere / "thesis.txt").write_text("precious")
    (folder / "steps").symlink_to(elsewhere)
    for act in (lambda s: s.check(), lambda s: s.repair(), lambda s: s.latest()):
        with pytest.raises(DamagedError, match="is a link"):
            act(seqgp.Store(folder))
    with pytest.raises(DamagedError, match="is a link"):
        seqgp.run(sampler(), snapshots(5), key(), store=folder)
    assert (elsewhere / "thesis.txt").exists()
    assert len(list(elsewhere.iterdir())) == 5


def test_a_step_that_is_a_link_or_a_pipe_is_named(folder, tmp_path):
    path = folder / "steps" / "000004.npz"
    shutil.move(path, tmp_path / "moved.npz")
    path.symlink_to(tmp_path / "moved.npz")
    assert names(seqgp.Store(folder).check()) == ["000004.npz"]
    path.unlink()
    os.mkfifo(path)
    assert names(seqgp.Store(folder).check()) == ["000004.npz"]


@pytest.mark.parametrize("when", ["manifest", "nothing"])
def test_a_run_killed_before_its_first_step_binds_nobody(tmp_path, when):
    """Another configuration may begin in its folder."""
    code = (
        "import os, sys, jax; jax.config.update('jax_enable_x64', True)\n"
        f"sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        "import seqgp; from runs import key, sampler, snapshots; from seqgp.io import store\n"
        "def killed(*_, **__): os._exit(9)\n"
        f"setattr(store, {'write_manifest' if when == 'nothing' else 'write_step'!r}, killed)\n"
        "store.Writer.last = lambda self: killed()\n"
        "seqgp.run(sampler(), snapshots(1), key(), store=sys.argv[1])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    assert ended.returncode == 9
    (tmp_path / "run" / ".manifest.json-abc.partial").write_text("half")
    other = seqgp.run(sampler(draws=24), snapshots(1), key(), store=tmp_path / "run")
    assert other.state.draws == 24
    assert seqgp.Store(tmp_path / "run").manifest.sampler["draws"] == "24"


def test_a_run_of_version_0_1_is_read_and_continued(old, capsys):
    store = seqgp.Store(old)
    assert store.check() == []
    assert store.times == [0.0, 1.0]
    assert store.latest().state.draws == 20
    assert "sha256" not in json.loads((old / "manifest.json").read_text())
    from seqgp.cli import main

    (old.parent / "more.csv").write_text((old.parent / "table.csv").read_text().replace("\n1,", "\n2,"))
    content = (old.parent / "more.csv").read_text().splitlines()
    (old.parent / "more.csv").write_text("\n".join([content[0], *(c for c in content if c.startswith("2,"))]) + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["update", str(old), str(old.parent / "more.csv")])
    assert ended.value.code == 2
    assert "begun with SequentialSampler(carry=JointCarry())" in capsys.readouterr().err
    text = (old / "manifest.json").read_text()  # as if it had been given the carry that is left
    (old / "manifest.json").write_text(text.replace("JointCarry()", "PaperCarry()"))
    with pytest.raises(SystemExit) as ended:
        main(["update", str(old), str(old.parent / "more.csv")])
    assert ended.value.code == 0
    assert seqgp.Store(old).times == [0.0, 1.0, 2.0]
    assert "sha256" in json.loads((old / "manifest.json").read_text())
    assert seqgp.Store(old).check() == []


def test_an_old_run_without_its_manifest_keeps_its_steps(old):
    (old / "manifest.json").unlink()
    with pytest.raises(DamagedError, match="backup"):
        seqgp.Store(old).repair()
    assert len(list((old / "steps").iterdir())) == 2


def test_a_file_that_may_not_be_read_is_not_broken(folder, monkeypatch):
    opened = os.open

    def refused(path, *rest, **more):
        if str(path).endswith("000002.npz"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *rest, **more)

    monkeypatch.setattr(files.os, "open", refused)
    with pytest.raises(seqgp.StoreError, match="cannot be read") as caught:
        seqgp.Store(folder).repair()
    assert not isinstance(caught.value, DamagedError)
    monkeypatch.undo()
    assert (folder / "steps" / "000002.npz").exists()


def test_a_deeply_nested_manifest_is_named(folder):
    (folder / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(DamagedError, match="not the manifest"):
        seqgp.Store(folder).latest()


def test_a_busy_run_is_a_passing_failure(folder):
    with locked(folder), pytest.raises(PassingError, match="in use by"), locked(folder):
        pass


def test_all_numbers_are_accounted_for(folder):
    assert integrity.set_aside(folder) == set()
    (folder / "broken").mkdir()
    for name in ("000007.npz", "000007.npz.2", "000009.npz.gone", "manifest.json"):
        (folder / "broken" / name).write_text("")
    assert integrity.set_aside(folder) == {7, 9}


def test_a_late_time_is_not_taken_for_that_of_a_lost_step(folder):
    (folder / "steps" / "000002.npz").unlink()
    seqgp.Store(folder).repair()
    x, y = snapshots(1)[0].x, snapshots(1)[0].y
    for late, said in ((0.2, "never seen"), (0.1, "not those that were used")):
        with pytest.raises(seqgp.DataError, match=said):
            seqgp.run(sampler(), [seqgp.Snapshot(late, x, y)], store=folder)
