"""The loop over snapshots, with a sampler that only remembers what it was called with."""

from typing import NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from seqgp.base.errors import DataError
from seqgp.base.info import ChainInfo
from seqgp.runtime import stopping
from seqgp.samplers.keys import FORECASTS
from seqgp.samplers.loop import loop, steps

KEY = jax.random.key(7)
SNAPSHOTS = [seqgp.Snapshot(t, [[0.0]], [t]) for t in (0.5, 1.0, 2.5, 3.0)]


class Seen(NamedTuple):
    t: float
    step: int
    keys: tuple  # of all steps so far

    def ready(self, model):
        return self


class Recorder:
    """A state is the list of the keys that it came from."""

    model = None

    def init(self, key, snapshot, progress=None):
        progress(1.0)
        return self._after(key, Seen(0.0, 0, ()), snapshot)

    def step(self, key, state, snapshot, progress=None):
        return self._after(key, state, snapshot)

    def _after(self, key, state, snapshot):
        info = ChainInfo(snapshot.t, state.step + 1, 0.1, 0.0, 0, {}, ("its own",), {}, {}, {}, {}, 1, 0.0)
        return Seen(snapshot.t, state.step + 1, (*state.keys, words(key))), info


def words(key):
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_a_step_has_the_key_of_its_number():
    done = loop(Recorder(), SNAPSHOTS, KEY)
    assert done.state.keys == tuple(words(jax.random.fold_in(KEY, i)) for i in range(4))
    assert [info.t for info in done.infos] == [0.5, 1.0, 2.5, 3.0]


def test_a_loop_that_is_taken_up_again_is_the_same():
    first = loop(Recorder(), SNAPSHOTS[:2], KEY)
    assert loop(Recorder(), SNAPSHOTS[2:], KEY, first.state).state == loop(Recorder(), SNAPSHOTS, KEY).state


def test_callbacks_see_every_step_and_may_end_the_loop():
    seen = []

    def until_the_third(state, info):
        seen.append((state.step, info.step))
        if state.step == 3:
            raise StopIteration

    never = []
    done = loop(Recorder(), SNAPSHOTS, KEY, callbacks=[until_the_third, lambda state, _: never.append(state.step)])
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert never == [1, 2]  # the one after the one that ended it is not called
    assert (done.state.step, len(done.infos)) == (3, 3)


def test_only_the_last_infos_are_kept_of_a_stream_without_end():
    def endless():
        t = 0.0
        while True:
            t += 1.0
            yield seqgp.Snapshot(t, [[0.0]], [0.0])

    def enough(state, info):
        if state.step == 50:
            raise StopIteration

    done = loop(Recorder(), endless(), KEY, callbacks=enough, keep=2)
    assert [info.step for info in done.infos] == [49, 50]


def test_each_snapshot_is_forecast_from_the_state_before_it():
    asked = []

    def forecast(key, state, snapshot):
        asked.append((words(key), state.t, snapshot.t))
        return {"crps": snapshot.t}, ("late",)

    done = loop(Recorder(), SNAPSHOTS, KEY, forecast=forecast)
    keys = [words(jax.random.fold_in(KEY, FORECASTS + i)) for i in (1, 2, 3)]
    assert asked == list(zip(keys, [0.5, 1.0, 2.5], [1.0, 2.5, 3.0]))
    assert [info.scores for info in done.infos] == [{}, {"crps": 1.0}, {"crps": 2.5}, {"crps": 3.0}]
    assert [info.warnings for info in done.infos] == [("its own",), *[("its own", "late")] * 3]
    asked.clear()
    loop(Recorder(), SNAPSHOTS[:1], KEY, done.state, forecast=forecast)  # of the past: the sampler will say so
    assert asked == []


def test_snapshots_are_taken_one_at_a_time():
    taken = []

    def source():
        for snapshot in SNAPSHOTS:
            taken.append(snapshot.t)
            yield snapshot

    found = steps(KEY, Recorder(), source())
    next(found)
    assert taken == [0.5]


class Diverged(Exception):
    pass


def host(f):
    if f.max() > 1:
        raise Diverged("no solution above 1")
    return np.asarray(f)


def black_box(f, context):
    return dist.Normal(jax.pure_callback(host, jax.ShapeDtypeStruct(f.shape, f.dtype), f), 0.5)


def test_a_function_that_fails_while_compiled_code_calls_it_is_named():
    class Calling(Recorder):
        model = small.model(likelihood=seqgp.likelihoods.Likelihood(black_box))

        def _after(self, key, state, snapshot):
            jax.jit(lambda f: self.model.likelihood.distribution(f, None, {}).mean)(snapshot.y).block_until_ready()
            return super()._after(key, state, snapshot)

    said = (
        r"likelihood failed on the snapshot at t = 2\.5: .*Diverged: no solution above 1 \(in Likelihood\(black_box\)\)"
    )
    with pytest.raises(seqgp.ModelError, match=said) as caught:
        loop(Calling(), SNAPSHOTS[:1] + SNAPSHOTS[2:], KEY)
    assert "in host" in str(caught.value.__cause__)  # with the traceback of the function itself


def test_what_is_no_snapshot_reaches_the_sampler_which_says_so():
    class Checking(Recorder):
        def init(self, key, snapshot, progress=None):
            raise DataError(f"expected a seqgp.Snapshot(t, x, y), got {type(snapshot).__name__}")

    with pytest.raises(DataError, match="got int"):
        loop(Checking(), [1], KEY)


def test_nothing_is_begun_after_a_request_to_stop(monkeypatch):
    found = steps(KEY, Recorder(), SNAPSHOTS)
    next(found)
    monkeypatch.setattr(stopping, "_requested", 15)
    with pytest.raises(stopping.Stopped):
        next(found)


def test_no_snapshot_is_an_error():
    with pytest.raises(DataError, match="no snapshot was given"):
        loop(Recorder(), [], KEY)
    state = loop(Recorder(), SNAPSHOTS, KEY).state
    assert loop(Recorder(), [], KEY, state).state == state  # of a run that has some, there may be no news
