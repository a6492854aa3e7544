"""A fleet in this process: one stream after the other, each as if it were alone."""

import sys

import jax
import numpy as np
import pytest

import seqgp
from fleet_streams import STEPS, model, same_draws, sampler, snapshots, streams
from seqgp.base.errors import DataError, SamplerError
from seqgp.fleets.outcome import announce
from seqgp.fleets.status import statuses
from seqgp.io.errors import StoreError
from seqgp.io.lock import locked
from seqgp.samplers.keys import named


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Three streams that ended well."""
    folder = tmp_path_factory.mktemp("done")
    return folder, seqgp.fleet(streams(3), store=folder)


def test_the_table_has_a_row_per_stream(done):
    _, found = done
    assert found.table.stream.tolist() == ["s0", "s1", "s2"]
    assert found.table.steps.tolist() == found.table.added.tolist() == [STEPS] * 3
    assert found.table.t.tolist() == [3.0] * 3
    assert np.isfinite(found.table[["crps", "log_score", "coverage_95", "log_evidence", "seconds"]]).all(axis=None)
    assert found.failed == ()
    assert found.table.error.isna().all()


def test_a_stream_is_a_run_with_a_key_of_its_own(done):
    _, found = done
    alone = seqgp.run(sampler(), snapshots(1), key=named(0, "fleet", "s1"))
    assert np.array_equal(alone.state.latent, found.runs["s1"].state.latent)
    assert [info.t for info in found.runs["s1"].infos] == [0, 1, 2, 3]
    assert len(found.runs) == 3
    assert found.runs["s2"].to_datatree()


def test_what_exists_is_not_computed_again(done, tmp_path):
    folder, _ = done
    found = seqgp.fleet(streams(3), store=folder)
    assert (found.table.steps.tolist(), found.table.added.tolist()) == ([STEPS] * 3, [0] * 3)
    first = seqgp.fleet(streams(2, steps=2), store=tmp_path)
    assert first.table.added.tolist() == [2, 2]
    again = seqgp.fleet(streams(3), store=tmp_path)
    assert again.table.added.tolist() == [STEPS - 2, STEPS - 2, STEPS]
    assert same_draws(folder, tmp_path, ["s0", "s1", "s2"])


def test_a_stream_that_fails_fails_alone(tmp_path, done):
    good, chosen = snapshots(0), sampler()

    def breaks():
        yield from good[:2]
        raise ZeroDivisionError("the disk of the exchange")

    found = seqgp.fleet(
        [
            seqgp.Stream("wide", chosen, [*good[:3], seqgp.Snapshot(3, [[0.0, 1.0]], [0.0])]),
            seqgp.Stream("breaks", chosen, breaks),
            seqgp.Stream("nothing", chosen, []),
            seqgp.Stream("wrong", chosen, lambda: [*good[:1], "no snapshot"]),
            seqgp.Stream("s1", chosen, snapshots(1)),
        ],
        store=tmp_path,
    )
    rows = {row.stream: row for row in found.rows}
    assert (rows["wide"].steps, rows["wide"].step) == (3, 4)
    assert rows["wide"].error == "Snapshot: x has 2 columns, but the last one had 1"
    assert (rows["breaks"].steps, rows["breaks"].step) == (2, 3)
    assert rows["breaks"].error == "ZeroDivisionError: the disk of the exchange"
    assert "raise ZeroDivisionError" in rows["breaks"].trace
    assert (rows["nothing"].steps, rows["nothing"].step) == (0, 1)
    assert "no snapshot was given" in rows["nothing"].error
    assert (rows["wrong"].step, rows["wrong"].error) == (2, "expected a seqgp.Snapshot(t, x, y), got str")
    assert rows["s1"].error is None
    assert len(found.failed) == 4
    assert same_draws(done[0], tmp_path, ["s1"])
    states = {one.outcome.stream: one.state for one in statuses(tmp_path)}
    assert states == dict.fromkeys(("wide", "breaks", "nothing", "wrong"), "failed") | {"s1": "done"}
    assert statuses(tmp_path)[-1].outcome.stream == "s1"  # the worst come first


def test_streams_of_one_shape_are_compiled_once(tmp_path, done):
    """Also where each has a model that was built for it."""
    compiled = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    made = [seqgp.Stream(f"m{i}", model(), snapshots(i)) for i in range(2)]
    seqgp.fleet(made[:1], store=tmp_path)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        found = seqgp.fleet([*made[1:], seqgp.Stream("m2", sampler(), snapshots(2))], store=tmp_path)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert found.failed == ()
    assert len(compiled) == 0


def test_another_seed_or_sampler_does_not_go_on_with_a_run(done):
    folder, _ = done
    (row,) = seqgp.fleet(streams(1), store=folder, seed=1).rows
    assert "key" in row.error
    other = seqgp.OnlineSampler(model(), particles=32, draws=8)
    (row,) = seqgp.fleet(streams(1, other), store=folder).rows
    assert "particles" in row.error
    assert seqgp.fleet(streams(1), store=folder).failed == ()


def test_a_stream_that_another_process_holds_is_waited_for_and_then_named(done):
    folder, _ = done
    with locked(folder / "s1"):
        found = seqgp.fleet(streams(3), store=folder, patience=0.2)
    assert [row.error is None for row in found.rows] == [True, False, True]
    assert "in use by process" in found.rows[1].error
    assert {one.state for one in statuses(folder)} == {"done"}  # nothing is wrong with the stream itself


def test_names(tmp_path):
    for name in ("", ".hidden", "a/b", "a\\b", "a\0b", "a\nb", 3, ".."):
        with pytest.raises(DataError, match="name of a folder"):
            seqgp.Stream(name, sampler(), [])
    with pytest.raises(DataError, match="longer than 200 bytes"):
        seqgp.Stream("ä" * 101, sampler(), [])
    with pytest.raises(DataError, match="two streams are called 's0'"):
        seqgp.fleet(streams(1) * 2, store=tmp_path)
    with pytest.raises(DataError, match="there is no stream"):
        seqgp.fleet([], store=tmp_path)
    with pytest.raises(DataError, match=r"expected a seqgp.Stream\(.*got tuple"):
        seqgp.fleet([("a", sampler(), [])], store=tmp_path)
    with pytest.raises(SamplerError, match=r"expected a sampler or a seqgp.Model, got str"):
        seqgp.Stream("a", "online", [])


def test_every_name_and_seed_has_a_key_of_its_own():
    keys = [named(seed, "fleet", f"stream {i}") for seed in (0, 1) for i in range(100)]
    assert len({jax.random.key_data(key).tobytes() for key in keys}) == 200
    # Known once and for all: a run that goes on under a later version must find its key.
    assert jax.random.key_data(named(0, "fleet", "ozone")).tolist() == [2072569105, 341451962]


def test_states_of_streams(tmp_path):
    with pytest.raises(StoreError, match="there is no fleet here"):
        statuses(tmp_path)
    announce(tmp_path, ["s0", "s9"])
    announce(tmp_path, ["s1"])  # of another fleet
    seqgp.fleet(streams(2), store=tmp_path)
    (tmp_path / ".fleet" / "s1.json").unlink()  # of a process that was killed
    with locked(tmp_path / "s0"):
        found = {one.outcome.stream: one.state for one in statuses(tmp_path)}
    assert found == {"s0": "under way", "s1": "unfinished", "s9": "waiting"}
    (tmp_path / ".fleet" / "s0.json").write_text('{"stream": "s0", "steps": "many"}')
    assert {one.outcome.stream: one.outcome.steps for one in statuses(tmp_path)} == {"s0": STEPS, "s1": STEPS, "s9": 0}


def test_rows_without_pandas(done, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = done[1].table
    assert [row["stream"] for row in table] == ["s0", "s1", "s2"]
    assert table[0]["steps"] == STEPS


def test_progress_over_streams_and_steps(tmp_path, capsys):
    seqgp.fleet(streams(2, steps=2), store=tmp_path, progress=True)
    said = capsys.readouterr().err
    assert "2/2" in said
    assert "4 steps" in said


def test_a_client_that_is_none(tmp_path):
    with pytest.raises(SamplerError, match=r"client is a dask.distributed.Client .* got str"):
        seqgp.fleet(streams(1), store=tmp_path, client="tcp://localhost:8786")
