"""What samplers ask of their arguments, and how they say what is wrong, before anything is compiled."""

from typing import Protocol

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from seqgp.base.errors import DataError, ModelError, SamplerError
from seqgp.base.validation import lacking, positive, require_x64
from seqgp.samplers import validation as checks
from seqgp.samplers.validation import check_snapshot, check_state, check_together, digest_of_names, model_digest

X = np.array([[0.0], [1.0]])


class Drawn:
    """What a check looks at in a state."""

    def __init__(self, model, entries=None, fingerprint=None):
        self.z = np.zeros((4, len(model.names) if entries is None else entries))
        self.fingerprint = model_digest(model) if fingerprint is None else fingerprint


@pytest.mark.parametrize("value", [0, -3, 1.0, True, "4", None, 10_000_001])
def test_numbers_that_are_none_of_something(value):
    with pytest.raises(SamplerError, match=rf"^draws = {value!r} is "):
        positive("draws", value)


def test_numbers_of_something():
    assert positive("draws", np.int64(5)) == 5
    assert type(positive("draws", np.int64(5))) is int
    assert positive("warmup", 0, least=0) == 0
    with pytest.raises(SamplerError, match="particles = 7 is not a whole number >= 16"):
        positive("particles", 7, least=16)


def test_single_precision_is_refused():
    require_x64()
    with jax.enable_x64(False), pytest.raises(SamplerError, match=r"seqgp.enable_x64\(\)"):
        require_x64()


def function(f, context, noise):
    return dist.Normal(f * context["exposure"], noise)


SOLVER = small.model(likelihood=seqgp.likelihoods.Likelihood(function, noise=0.5))
WRONG = {
    "no snapshot": (small.MODEL, (0.0, X, [1.0, 2.0]), DataError, "expected a seqgp.Snapshot.* got tuple"),
    "sizes": (small.MODEL, seqgp.Snapshot(0.0, X, [1.0]), DataError, r"y has shape \(1,\), expected \(2,\)"),
    "context": (SOLVER, seqgp.Snapshot(2.0, X, [1.0, 2.0]), ModelError, "failed on the snapshot at t = 2.0: TypeError"),
    "key": (SOLVER, seqgp.Snapshot(2.0, X, [1.0, 2.0], {"area": X[:, 0]}), ModelError, "KeyError: 'exposure'"),
    "shape": (
        SOLVER,
        seqgp.Snapshot(2.0, X, [1.0, 2.0, 3.0], {"exposure": X[:, 0]}),
        ModelError,
        r"distribution of shape \(2,\), but y has shape \(3,\)",
    ),
    "counts": (
        small.model(likelihood=seqgp.likelihoods.Poisson()),
        seqgp.Snapshot(0.0, X, [1.0, -2.0]),
        DataError,
        "1 of 2 values .*negative",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_snapshots_that_do_not_fit_the_model(name):
    model, snapshot, kind, said = WRONG[name]
    with pytest.raises(kind, match=said):
        check_snapshot(model, snapshot)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_without_text_is_named_by_its_class():
    def mute(f, context, noise):
        raise Mute

    model = small.model(likelihood=seqgp.likelihoods.Likelihood(mute, noise=0.5))
    with pytest.raises(ModelError, match=r"failed on the snapshot at t = 1.0: Mute: Mute \(in Likelihood\(.*mute\)\)"):
        check_snapshot(model, seqgp.Snapshot(1.0, X, [1.0, 2.0]))


def test_snapshots_that_fit():
    compiled = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    check_snapshot(small.MODEL, seqgp.Snapshot(0.0, X, [1.0, np.nan]))
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        check_snapshot(small.MODEL, seqgp.Snapshot(1.0, X, [np.nan, 2.0]))
        check_snapshot(SOLVER, seqgp.Snapshot(1.0, X, [1.0, 2.0], {"exposure": np.ones(2)}))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


def test_states_of_another_model_are_refused():
    other = small.model(mean=0.5)
    check_state(small.MODEL, Drawn(small.MODEL), "step")
    with pytest.raises(SamplerError, match=r"^predict: the state is of another model.*compare model.fingerprint"):
        check_state(small.MODEL, Drawn(other, entries=5), "predict")
    with pytest.raises(SamplerError, match=r"it has 4 parameters, and this one infers 5: time.lengthscale, "):
        check_state(small.MODEL, Drawn(other), "step")


def test_a_state_of_the_first_version_knows_functions_by_their_names():
    check_state(SOLVER, Drawn(SOLVER, fingerprint=digest_of_names(SOLVER.fingerprint())), "step")
    other = small.model(
        likelihood=seqgp.likelihoods.Likelihood(lambda f, context, noise: dist.Normal(f, noise), noise=0.5)
    )
    with pytest.raises(SamplerError, match="another model"):
        check_state(other, Drawn(SOLVER, fingerprint=digest_of_names(SOLVER.fingerprint())), "step")


def test_digests_tell_models_apart():
    again, other = small.model(), small.model(scale=seqgp.ScaledSigmoid(0.3, 2.1))
    assert model_digest(again) == model_digest(small.MODEL) != model_digest(other)


class Base(Protocol):
    draws: int

    def init(self): ...


class Wanted(Base, Protocol):
    def step(self): ...


def test_what_an_object_lacks_of_a_protocol():
    class Half:
        draws = 3

        def step(self): ...

    assert lacking(Wanted, Half()) == "; as an object of your own it lacks init"
    assert lacking(Wanted, "online") == lacking(Wanted, Half) == ""


def test_processes_that_are_not_together(monkeypatch):
    """Told without a second process: what is said when their number, or what they were given, does not fit."""
    check_together(jax.random.key(0), X, particles=33)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(checks, "same_everywhere", lambda *trees: False)
    with pytest.raises(SamplerError, match="particles = 33 cannot be shared out evenly by 2 processes"):
        check_together(jax.random.key(0), X, particles=33)
    with pytest.raises(SamplerError, match=r"the 2 processes of jax.distributed are not at the same step"):
        check_together(jax.random.key(0), X, particles=32)
