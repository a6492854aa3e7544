"""A fleet on a Dask cluster with real processes: the draws of one process, whatever happens to the workers."""

import _thread
import functools
import resource
import threading
import time

import cloudpickle
import numpy as np
import pytest

import seqgp
from fleet_streams import STEPS, Deadly, held_snapshots, model, same_draws, sampler, slow_snapshots, snapshots, streams
from seqgp.fleets import cluster as module
from seqgp.fleets.status import statuses
from seqgp.io import lock

distributed = pytest.importorskip("distributed")
COUNT = 4
NAMES = [f"s{i}" for i in range(COUNT)]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The streams in this process, undisturbed."""
    folder = tmp_path_factory.mktemp("straight")
    assert seqgp.fleet(streams(COUNT), store=folder).failed == ()
    return folder


@pytest.fixture(scope="module")
def client(straight):  # what it compiled, the workers load
    with module.local_cluster(2) as local, distributed.Client(local) as client:
        yield client


@pytest.fixture(autouse=True)
def two_workers(request):
    if "client" in request.fixturenames:
        request.getfixturevalue("client").wait_for_workers(2, timeout=400)


def test_draws_are_those_of_one_process(client, straight, tmp_path):
    found = seqgp.fleet(streams(COUNT), store=tmp_path, client=client)
    assert found.failed == ()
    assert found.table.added.tolist() == [STEPS] * COUNT
    assert len({row.worker for row in found.rows}) == 2
    assert same_draws(straight, tmp_path, NAMES)
    assert np.array_equal(found.runs["s1"].state.z, seqgp.Store(straight / "s1").latest().state.z)
    again = seqgp.fleet(streams(COUNT), store=tmp_path, client=client)
    assert (again.failed, again.table.added.tolist()) == ((), [0] * COUNT)


def test_nothing_piles_up_on_our_own_workers(client):
    """Dask's profiler keeps the stacks of an hour: half a megabyte a second."""
    assert not any(client.run(lambda dask_worker: "profile" in dask_worker.periodic_callbacks).values())


def test_a_stream_that_fails_on_a_worker_fails_alone(client, straight, tmp_path):
    def broken():
        raise LookupError("no such exchange")

    class Unpackable:
        def __reduce__(self):
            return _raises, ()

    mixed = [seqgp.Stream("broken", sampler(), broken), seqgp.Stream("alien", sampler(), Unpackable())]
    found = seqgp.fleet([*mixed, *streams(1)], store=tmp_path, client=client)
    assert [row.error is None for row in found.rows] == [False, False, True]
    assert found.rows[0].error == "LookupError: no such exchange"
    assert "raise LookupError" in found.rows[0].trace
    assert "a worker needs the packages and modules of the client" in found.rows[1].error
    assert same_draws(straight, tmp_path, ["s0"])


def _raises():
    raise ModuleNotFoundError("No module named 'mine'")


def test_workers_killed_in_the_middle_of_a_step_twice(client, tmp_path):
    """Another worker takes the stream up, after the last whole step."""
    marks, never = tmp_path / "marks", tmp_path / "never"
    marks.mkdir()
    never.mkdir()
    deadly = [seqgp.Stream("s0", Deadly(marks, (1.0, 2.0)), snapshots(0)), *streams(COUNT)[1:]]
    found = seqgp.fleet(deadly, store=tmp_path / "runs", client=client)
    assert len({path.read_text() for path in marks.iterdir()}) == 2  # two processes died
    assert found.failed == ()
    seqgp.fleet([seqgp.Stream("s0", Deadly(never, ()), snapshots(0))], store=tmp_path / "undisturbed")
    assert same_draws(tmp_path / "undisturbed", tmp_path / "runs", ["s0"])
    assert [row.steps for row in found.rows] == [STEPS] * COUNT
    assert all(seqgp.Store(tmp_path / "runs" / name).check() == [] for name in NAMES)


def test_a_stream_that_kills_every_worker_fails_alone(client, straight, tmp_path, monkeypatch):
    """Those that wait on the workers which it kills are not blamed: each is tried again, alone."""
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    deadly = seqgp.Stream("deadly", Deadly(tmp_path, (2.0,), always=True), snapshots(0))
    found = seqgp.fleet([deadly, *streams(COUNT)], store=tmp_path / "runs", client=client)
    (row,) = found.failed
    assert (row.stream, row.steps, row.step, row.t) == ("deadly", 2, 3, 1.0)
    assert "every worker that took it up died" in row.error
    assert len(set((tmp_path / "died at 2.0").read_text().split())) == 2  # among others, and alone
    assert same_draws(straight, tmp_path / "runs", NAMES)
    monkeypatch.setattr(lock, "LEASE", 0.0)  # a minute later
    states = {one.outcome.stream: one.state for one in statuses(tmp_path / "runs")}
    assert states == dict.fromkeys(NAMES, "done") | {"deadly": "failed"}


def test_the_client_interrupted_and_the_fleet_started_again(client, straight, tmp_path):
    """Workers stop after the step in hand; what they did is not done again."""
    gate = tmp_path / "gate"
    held = [seqgp.Stream(name, sampler(), functools.partial(held_snapshots, i, gate)) for i, name in enumerate(NAMES)]
    threading.Thread(target=_interrupt_after, args=(tmp_path / "runs" / "s0",), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        seqgp.fleet(held, store=tmp_path / "runs", client=client)
    gate.touch()  # each stream under way may finish the step that it was held up in, and no other
    found = seqgp.fleet(streams(COUNT), store=tmp_path / "runs", client=client)
    assert found.failed == ()
    done = [STEPS - row.added for row in found.rows]
    assert done[0] in (2, 3)  # two before it was held up, and the step in hand
    assert max(done) <= 3
    assert same_draws(straight, tmp_path / "runs", NAMES)


def _interrupt_after(run, steps=2):
    """Interrupt this process once a run has so many steps."""
    while len(list(run.glob("steps/[0-9]*.npz"))) < steps:
        time.sleep(0.01)
    _thread.interrupt_main()


def test_whatever_a_stream_raises_and_one_that_hangs(client, tmp_path):
    """A stream ends neither its worker nor the fleet."""
    readers = {"exits": _exits, "interrupts": _interrupts, "mute": _mute}
    found = seqgp.fleet([seqgp.Stream(n, sampler(), r) for n, r in readers.items()], store=tmp_path, client=client)
    assert [row.error for row in found.rows] == ["SystemExit: 3", "KeyboardInterrupt: by hand", "Mute: Mute"]
    hangs = seqgp.Stream("hangs", sampler(), functools.partial(held_snapshots, 0, tmp_path / "never", before=0))
    (row,) = seqgp.fleet([hangs], store=tmp_path, client=client, timeout=0.5).rows
    assert "timeout: no new step for 0.5 s" in row.error
    assert row.worker in client.nthreads()
    states = {one.outcome.stream: one.state for one in statuses(tmp_path)}
    assert states["exits"] == states["mute"] == states["interrupts"] == "failed"
    (tmp_path / "never").touch()  # let go of it


def _exits():
    raise SystemExit(3)


def _interrupts():
    raise KeyboardInterrupt("by hand")


def _mute():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("nothing to say")

    raise Mute


def _largest_file(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))


def test_a_disk_full_on_one_worker(client, straight, tmp_path):
    """What a write to a full disk looks like, without one: the other worker takes the streams."""
    one = next(iter(client.nthreads()))
    client.run(_largest_file, 512, workers=[one])
    try:
        found = seqgp.fleet(streams(COUNT), store=tmp_path / "runs", client=client)
        assert found.failed == ()
        assert one not in {row.worker for row in found.rows}
        assert same_draws(straight, tmp_path / "runs", NAMES)
        client.run(_largest_file, 512)
        full = seqgp.fleet(streams(1), store=tmp_path / "full", client=client, patience=0.5)
    finally:
        client.run(_largest_file, resource.RLIM_INFINITY)
    assert "disk is full" in full.rows[0].error
    assert seqgp.fleet(streams(1), store=tmp_path / "full", client=client).failed == ()


def test_two_fleets_on_one_store(client, straight, tmp_path):
    """Each step is computed by one of them, and both have all."""
    slow = [seqgp.Stream(name, sampler(), functools.partial(slow_snapshots, i, 0.05)) for i, name in enumerate(NAMES)]
    found = {}

    def second():
        found["second"] = seqgp.fleet(slow, store=tmp_path)

    thread = threading.Thread(target=second)
    thread.start()
    first = seqgp.fleet(slow, store=tmp_path, client=client)
    thread.join()
    assert first.failed == found["second"].failed == ()
    assert [row.steps for row in (*first.rows, *found["second"].rows)] == [STEPS] * 2 * COUNT
    assert sum(row.added for row in (*first.rows, *found["second"].rows)) == STEPS * COUNT
    assert same_draws(straight, tmp_path, NAMES)
    assert {one.state for one in statuses(tmp_path)} == {"done"}


def test_a_worker_knows_a_sampler_again():
    """Unpacked once: a function of one's own would be another function each time, and compiled anew."""
    own = seqgp.Model(model().kernel, seqgp.likelihoods.Likelihood(lambda f, context: None))
    packed = cloudpickle.dumps(own)
    assert module._SAMPLERS.get(packed) is module._SAMPLERS.get(packed)
    for i in range(module.MAX_SAMPLERS):
        module._SAMPLERS.get(cloudpickle.dumps(i))
    assert len(module._SAMPLERS._kept) == module.MAX_SAMPLERS


def test_no_more_is_handed_over_than_there_is_room_for(client, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STREAMS_AT_A_TIME", 2)
    most = []
    monkeypatch.setattr(
        module.Cluster, "submit", lambda self, *args, submit=module.Cluster.submit: (
            submit(self, *args), most.append(self.running)
        )
    )  # fmt: skip
    assert seqgp.fleet(streams(12, steps=1), store=tmp_path, client=client).failed == ()
    assert max(most) == 8  # four a thread
