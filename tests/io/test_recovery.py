"""A run that lost a step before its last: its data are recovered, or it goes back before them, and then goes on."""

import json
import os
import time

import numpy as np
import pytest

import seqgp
from runs import key, model, same, snapshots
from seqgp.io.errors import DamagedError, PassingError
from seqgp.io.files import Container, verified, write_container
from seqgp.io.lock import HOLDER, LEASE, locked, shows_life


def online():
    return seqgp.OnlineSampler(model(), particles=16, draws=16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An online run of three steps in a folder, and the same with a fourth."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    seqgp.run(online(), snapshots(3), key(), store=folder)
    return folder, seqgp.run(online(), snapshots(4), key())


@pytest.fixture
def folder(whole, tmp_path):
    import shutil

    shutil.copytree(whole[0], tmp_path / "run")
    return tmp_path / "run"


def resealed(path, change):
    """Change the header of a step, and seal it again."""
    with Container(path) as container:
        header, arrays = dict(container.header), {name: container[name] for name in container}
    header.pop("sha256")
    change(header)
    write_container(path, header, arrays)


def test_data_of_a_truncated_step_are_recovered(whole, folder):
    path = folder / "steps" / "000002.npz"
    path.write_bytes(path.read_bytes()[:-500])
    found = seqgp.Store(folder).repair()
    assert any("recovered from broken/" in damage.why for damage in found)
    assert seqgp.Store(folder).check() == []
    assert same(seqgp.run(online(), snapshots(4), key(), store=folder).state.z, whole[1].state.z)


def test_a_run_whose_data_are_lost_goes_back_before_them(whole, folder):
    (folder / "steps" / "000002.npz").unlink()
    store = seqgp.Store(folder)
    assert any("cannot go on from this step, for the data of step 2" in damage.why for damage in store.check())
    with pytest.raises(DamagedError, match="data of step 2 are needed"):
        store.latest().state
    found = store.repair()
    assert any("set aside, for the data of step 2 are lost" in damage.why for damage in found)
    assert store.check() == []
    assert store.times == [0.0]
    assert same(seqgp.run(online(), snapshots(4), key(), store=folder).state.z, whole[1].state.z)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(t="soon"),
        lambda h: h.update(labels=5),
        lambda h: h.update(info=3),
        lambda h: h.update(snapshot={"$tuple": [1, 2]}),
        lambda h: h.update(state={"$tuple": []}),
        lambda h: h["state"]["fields"].update(z="many"),
        lambda h: h["state"]["fields"].update(step=7),
        lambda h: h["info"]["fields"].update(warnings=4),
        lambda h: h.update(summary={"$tuple": [{"$float": "x"}, 1]}),
        lambda h: h["state"].update({"$class": ["a"]}),
        lambda h: h["manifest"].update(created="yesterday"),
    ],
)
def test_a_hostile_header_is_a_named_damage(folder, change):
    path = folder / "steps" / "000002.npz"
    resealed(path, change)
    found = seqgp.Store(folder).check()
    assert path in [damage.path for damage in found]


def test_an_array_that_declares_too_much_is_named(tmp_path):
    import io

    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(ValueError, match=r"a declares 8000000000000 bytes of shape .* and has 0"):
        verified("a", file.getvalue(), "")


def test_a_manifest_that_differs_from_its_copies_is_noticed_and_restored(folder):
    from seqgp.io.manifest import read_manifest, write_manifest

    manifest = read_manifest(folder)
    write_manifest(folder, manifest._replace(key={**manifest.key, "data": [0, 99]}))
    found = seqgp.Store(folder).check()
    assert [damage.path.name for damage in found] == ["manifest.json"]
    assert "key differ" in found[0].why
    seqgp.Store(folder).repair()
    assert read_manifest(folder) == manifest


def test_a_note_dated_ahead_blocks_no_longer_than_it_says(folder):
    holder = folder / HOLDER
    who = {"process": 1, "user": "a", "host": "b", "boot": "elsewhere", "since": "now"}
    holder.write_text(json.dumps(who))
    ahead = time.time() + 86400
    os.utime(holder, (ahead, ahead))
    assert not shows_life(folder)
    with pytest.raises(PassingError, match="or 60 s if it is dead"), locked(folder):
        pass
    assert holder.stat().st_mtime < time.time() + LEASE
