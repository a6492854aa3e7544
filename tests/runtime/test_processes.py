"""One large run on two processes of ``jax.distributed``, each with its share: the draws of one process."""

import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.experimental import multihost_utils

import seqgp
from seqgp.base.errors import SamplerError
from seqgp.mcmc import sample as draw
from seqgp.samplers.online.filters import chosen, either, filter_of
from streams import model, sampled, snapshots

CODE = """
import sys
import jax, numpy as np
import seqgp
seqgp.enable_x64()
number, port, tests, out = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=number)
sys.path[:0] = [tests, f"{tests}/runtime"]
from test_processes import drawn, refused
assert (jax.process_count(), jax.local_device_count(), jax.device_count()) == (2, 1, 2)
np.savez(f"{out}/{number}.npz", **drawn(f"{out}/run of {number}"), refused=refused(number))
"""
PATIENCE = 10  # seconds without a sign of life after which JAX gives a process up
DYING = (
    CODE.partition("from test_processes")[0].replace("id=number", f"id=number, heartbeat_timeout_seconds={PATIENCE}")
    + """
from test_processes import killed_within_a_step
killed_within_a_step(f"{out}/run of {number}", dies=number == int(sys.argv[5]))
"""
)
ORDER = np.random.default_rng(0).permutation(32)
TAKEN = ORDER % 3 == 0


def drawn(folder):
    """What is to be the same on two processes as on one, and how many filters and chains this one has."""
    data = snapshots(missing=0.2)
    return _cloud(data) | _whole(data) | _chains(data) | _taken_up(data, folder)


def _cloud(data):
    """Draws, a forecast, the evidence; and filters that particles exchange."""
    state, info = sampled(seqgp.OnlineSampler(model(), particles=32, draws=20), data[:4])
    prediction = seqgp.predict(jax.random.key(5), model(), state, data[0].x, t=data[4].t)
    found = {"latent": state.latent, "z": state.z, "evidence": info.log_evidence, "y": prediction.y}
    found["score"] = prediction.log_score(data[4].y)
    found["loo"] = np.nan_to_num(np.stack(info.loo))
    filters = state.live.filters
    found["filters"] = sum(len(jax.tree.leaves(group)[0]) for group in filters.groups)
    mixed = either(TAKEN, chosen(filters, ORDER), filters)
    for particle in (0, 13, 31):
        found_one = filter_of(mixed, particle)
        for mine, was in zip(*map(jax.tree.leaves, (found_one, filter_of(filters, ORDER[particle])))):
            assert np.array_equal(mine, was) or not TAKEN[particle]
        found[f"filter {particle}"] = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found_one)])
    return found


def _whole(data):
    """A likelihood that sees all of the latent at once."""
    likelihood = seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(jnp.cumsum(jnp.exp(f)), 0.5))
    state, _ = sampled(seqgp.OnlineSampler(model(likelihood=likelihood), particles=32, draws=20), data[:1])
    return {"whole": state.latent}


def _chains(data):
    """Two chains, one a process; the work that is counted is that of both."""
    counted, advance = [], draw.advance

    def watched(key, chains, *args):
        after, *rest = advance(key, chains, *args)
        counted.append(len(after.positions))
        return after, *rest

    draw.advance = watched
    try:
        state, info = sampled(seqgp.SequentialSampler(model(), draws=8, chains=2, warmup=4), data[:1])
    finally:
        draw.advance = advance
    evaluations = info.updates["parameters"].evaluations
    return {"chains/z": state.z, "chains/latent": state.latent, "evaluations": evaluations, "chains": counted[-1]}


def _taken_up(data, folder):
    """A run that was closed and taken up again: each process has a store of its own."""
    sampler = seqgp.OnlineSampler(model(), particles=32, draws=20)
    for stop in (2, 4):
        run = seqgp.run(sampler, data[:stop], key=jax.random.key(1), store=folder, progress=False)
    return {"run": run.state.z, "crps": [info.scores.get("crps", 0.0) for info in run.infos]}


def refused(number):
    """What is said of particles that cannot be shared, and of processes that are not at the same step."""
    said = []
    for particles, seed in ((33, 0), (32, number)):
        try:
            seqgp.OnlineSampler(model(), particles=particles, draws=20).init(jax.random.key(seed), snapshots()[0])
        except SamplerError as error:
            said.append(str(error))
    return said


def killed_within_a_step(folder, dies):
    """A run whose process is killed in its second step, once it is known to be the same everywhere."""
    gather, exchanges = multihost_utils.process_allgather, []

    def deadly(*args, **kwargs):
        exchanges.append(seqgp.Store(folder).exists and len(seqgp.Store(folder)))
        if dies and exchanges.count(1) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return gather(*args, **kwargs)

    multihost_utils.process_allgather = deadly
    sampler = seqgp.OnlineSampler(model(), particles=32, draws=20)
    seqgp.run(sampler, snapshots(missing=0.2)[:4], key=jax.random.key(1), store=folder, progress=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("alone"))


def run_both(code, out, *more):
    """Exit codes and what was said of two processes that make up one run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tests = Path(__file__).parent.parent
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(number), str(port), str(tests), str(out), *map(str, more)],
            env=os.environ | {"JAX_PLATFORMS": "cpu"}, stderr=subprocess.PIPE, text=True,
        )
        for number in (0, 1)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=400)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], said


@pytest.fixture(scope="module")
def both(alone, tmp_path_factory):  # what that compiled, these load
    out = tmp_path_factory.mktemp("both")
    codes, said = run_both(CODE, out)
    assert codes == [0, 0], "\n".join(text[-3000:] for text in said)
    return [np.load(out / f"{number}.npz") for number in (0, 1)]


def test_two_processes_draw_as_one(alone, both):
    same = set(alone) - {"filters", "chains"}
    assert (alone["filters"], *(int(one["filters"]) for one in both)) == (32, 16, 16)
    assert (alone["chains"], *(int(one["chains"]) for one in both)) == (2, 1, 1)
    for name, one in itertools.product(same, both):
        np.testing.assert_allclose(one[name], alone[name], rtol=1e-7, atol=1e-7, err_msg=name)


def test_processes_that_do_not_fit_are_told(both):
    for one in both:
        uneven, apart = one["refused"].tolist()
        assert "particles = 33 cannot be shared out evenly by 2 processes" in uneven
        assert "not at the same step of the same run" in apart


@pytest.mark.parametrize("dies", [0, 1])
def test_a_process_that_dies_within_a_step_ends_the_other(alone, tmp_path, dies):
    """One that loses its partner says so; one that loses the coordinator, process 0, is ended by JAX with a word."""
    codes, said = run_both(DYING, tmp_path, dies)
    assert codes[dies] == -signal.SIGKILL
    assert codes[1 - dies] not in (0, None)
    ours = "another of the 2 processes of jax.distributed is gone" in said[1 - dies]
    assert ours or (dies == 0 and "another task died" in said[1])
    for number in (0, 1):
        store = seqgp.Store(tmp_path / f"run of {number}")
        assert (len(store), store.check()) == (1, [])
