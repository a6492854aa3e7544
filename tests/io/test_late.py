"""Late and corrected snapshots in runs: the run in order, resumption bit for bit, damage, and what is refused."""

import jax
import numpy as np
import pytest

import runs
import seqgp
from runs import same
from solver_streams import linear_data, linear_model
from streams import snapshots


def known():
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0), scale=1.0)
    return seqgp.Model(kernel=kernel, mean=0.5, likelihood=seqgp.likelihoods.Gaussian(0.3))


def sampler(**more):
    return seqgp.OnlineSampler(known(), particles=16, draws=20, **more)


KEY = jax.random.key(3)
DATA = snapshots(missing=0.2)[:7]
WRONG = DATA[1]._replace(y=DATA[1].y + 2)
ARRIVALS = [DATA[0], WRONG, DATA[3], DATA[5], DATA[2], DATA[4], DATA[1], DATA[6]]  # two late ones, one corrected


def gaussian(state):
    """Mean and variance of the state of the first particle: all are the same where the parameters are known."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state.live.filters)]


def test_a_run_with_late_data_is_the_run_in_order(tmp_path):
    """As many steps as the run in order, so that the last one has the same key: the same draws."""
    in_order = seqgp.run(sampler(), DATA, KEY)
    one_late = seqgp.run(sampler(), [*DATA[:3], *DATA[4:], DATA[3]], KEY, store=tmp_path / "one")
    assert np.abs(np.asarray(one_late.state.latent) - in_order.state.latent).max() < 1e-10
    stored = seqgp.run(sampler(), ARRIVALS, KEY, store=tmp_path / "run")
    assert stored.state.log_evidence == pytest.approx(in_order.state.log_evidence, abs=1e-10)
    for mine, wanted in zip(gaussian(stored.state), gaussian(in_order.state), strict=True):
        assert mine.shape == wanted.shape
        assert np.abs(mine - wanted).max(initial=0.0) < 1e-10
    revisions = [info.extras for info in stored.infos if "retracted" in info.extras]
    assert [(one["added"], one["replaced"]) for one in revisions] == [(2, 1)]  # in a list they are one revision
    store = seqgp.Store(tmp_path / "run")
    assert [one.t for one in store.snapshots()] == [one.t for one in DATA]
    assert all(np.array_equal(a.y, b.y, equal_nan=True) for a, b in zip(store.snapshots(), DATA))
    assert store.times == sorted(store.times)
    assert [step.t for step in store.standing()] == [DATA[i].t for i in (0, 1, 3, 5, 6)]
    assert np.array_equal(store.step(2).snapshot.y, WRONG.y, equal_nan=True)  # what was replaced is kept


def test_in_memory_and_one_by_one(tmp_path):
    """Of an iterator each late snapshot is a revision of its own; in memory and on disk the draws are the same."""
    stored = seqgp.run(sampler(), iter(ARRIVALS), KEY, store=tmp_path / "run")
    memory = seqgp.run(sampler(), iter(ARRIVALS), KEY)
    assert np.array_equal(stored.state.latent, memory.state.latent)
    assert stored.state.step == memory.state.step == len(ARRIVALS)
    again = seqgp.run(sampler(), iter([*ARRIVALS, DATA[6]]), KEY)  # the same data once more change nothing
    assert again.state.step == len(ARRIVALS)


@pytest.mark.parametrize("kept", [None, 1])
@pytest.mark.parametrize("count", range(1, 8))
def test_resumed_bit_for_bit_after_any_step(tmp_path, count, kept):
    """All arrivals are given again: the corrected snapshot too, in both of its versions."""
    straight = seqgp.run(sampler(), iter(ARRIVALS), KEY, store=tmp_path / "straight", keep=kept)
    seen = []

    def stop(state, info):
        seen.append(state)
        if len(seen) == count:
            raise StopIteration

    seqgp.run(sampler(), iter(ARRIVALS), KEY, callbacks=[stop], store=tmp_path / "run", keep=kept)
    resumed = seqgp.run(sampler(), iter(ARRIVALS), KEY, store=tmp_path / "run", keep=kept)
    assert resumed.state.step == len(ARRIVALS)
    assert same(resumed.state.packed(), straight.state.packed())
    assert seqgp.Store(tmp_path / "run").check() == []


def test_linearisations_of_the_revised_past_are_kept(tmp_path):
    """A likelihood that sees all of the latent: what was linearised anew comes back from disk as it was."""
    data = linear_data()
    its = seqgp.OnlineSampler(linear_model(), particles=16, draws=20)
    arrivals = [data[0], data[2]._replace(y=data[2].y + 1), data[1], *data[2:]]
    done = seqgp.run(its, iter(arrivals[:-1]), KEY, store=tmp_path / "run", forecast=False)
    read = seqgp.Store(tmp_path / "run").latest().state
    assert same(read.linearised_snapshots, done.state.linearised_snapshots)
    resumed = seqgp.run(its, iter(arrivals), KEY, store=tmp_path / "run", forecast=False)
    straight = seqgp.run(its, iter(arrivals), KEY, forecast=False)
    assert same(resumed.state.packed(), straight.state.packed())


def test_beyond_a_bounded_history_late_data_are_refused_by_name(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.random((3, 2))
    data = [seqgp.Snapshot(float(t), x, rng.normal(size=3)) for t in range(35)]
    its = sampler(history=10)
    done = seqgp.run(its, [one for one in data if one.t not in (5, 30)], KEY, store=tmp_path / "run", keep=2)
    assert done.state.dropped
    with pytest.raises(seqgp.DataError, match=r"t = 5 is before .*beyond the bounded history \(history=10\)"):
        seqgp.run(its, [data[5], data[30]], store=tmp_path / "run")
    assert len(seqgp.Store(tmp_path / "run")) == 33
    revised = seqgp.run(its, [data[30]], store=tmp_path / "run", keep=2)
    assert revised.state.step == 34
    read = seqgp.Store(tmp_path / "run").latest().state
    assert [one.t for one in read.snapshots] == [one.t for one in revised.state.snapshots]
    assert seqgp.Store(tmp_path / "run").check() == []


def test_late_data_refused_or_skipped_by_name(tmp_path):
    late = [DATA[0], DATA[2], DATA[1]]
    for store in (None, tmp_path / "run"):
        with pytest.raises(seqgp.DataError, match=r"t = .*; late=\"refuse\" is set"):
            seqgp.run(sampler(), late, KEY, late="refuse", store=store)
        with pytest.warns(UserWarning, match="left out: .*t = "):
            done = seqgp.run(sampler(), late, KEY, late="skip", store=store)
        assert done.state.step == 2
    with pytest.raises(seqgp.SamplerError, match="late = 'ignore' is not one of 'revise', 'refuse', 'skip'"):
        seqgp.run(sampler(), late, KEY, late="ignore")


@pytest.mark.parametrize("stored", [False, True])
def test_samplers_that_keep_no_past_refuse_late_data_by_name(tmp_path, stored):
    data = runs.snapshots(3)
    store = tmp_path / "run" if stored else None
    with pytest.raises(seqgp.DataError, match="SequentialSampler: it keeps no past, so late and corrected data"):
        seqgp.run(runs.sampler(draws=4), [data[0], data[2], data[1]], KEY, store=store)
    full = seqgp.FullSampler(runs.model(), draws=4, chains=2, warmup=2)
    with pytest.raises(seqgp.DataError, match=r"t = 0\.0 is not after the last t = 0\.1; FullSampler takes"):
        full.sample(KEY, [data[1], data[0]])


def test_a_lost_revision_is_recovered_or_gone_back_before(tmp_path):
    seqgp.run(sampler(), ARRIVALS, KEY, store=tmp_path / "run")
    straight = seqgp.Store(tmp_path / "run").latest().state
    path = tmp_path / "run" / "steps" / "000005.npz"
    assert seqgp.Store(tmp_path / "run").step(5).late is not None
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])  # the end is cut off, the data can be read
    store = seqgp.Store(tmp_path / "run")
    assert {damage.path.name for damage in store.check()} == {"000005.npz", "000006.npz"}
    store.repair()
    assert store.check() == []
    for mine, wanted in zip(store.latest().state.snapshots, straight.snapshots, strict=True):
        assert np.array_equal(mine.y, wanted.y, equal_nan=True)
    path.unlink()
    for broken in (tmp_path / "run" / "broken").glob("000005*"):
        broken.unlink()
    store = seqgp.Store(tmp_path / "run")
    store.repair()
    assert store.check() == []
    assert len(store) == 4
    resumed = seqgp.run(sampler(), ARRIVALS, store=tmp_path / "run")
    assert np.array_equal(resumed.state.latent, straight.latent)


def test_data_that_were_replaced_are_named_where_they_are_given_again(tmp_path):
    seqgp.run(sampler(), ARRIVALS, KEY, store=tmp_path / "run")
    with pytest.warns(UserWarning, match="were corrected since, and stay so"):
        again = seqgp.run(sampler(), [DATA[0], WRONG], store=tmp_path / "run")
    assert again.state.step == 6
