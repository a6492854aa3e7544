"""What identifies an object in a model: its class, the code of its class, and all that it holds."""

import dataclasses
import functools
import os
import subprocess
import sys
import textwrap
import zlib
from fractions import Fraction
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from seqgp.base.identity import describe, undescribed

RATE = 1.0


class Plain:
    def __init__(self, rate):
        self.rate = rate

    def likelihood(self, f, context):
        return dist.Normal(self.rate * f, 1.0)


class Slotted:
    __slots__ = ("__weakref__", "_rate")

    def __init__(self, rate):
        self._rate = rate


class Derived(Slotted):
    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    rate: float


class Module(eqx.Module):
    rate: jnp.ndarray
    name: str = eqx.field(static=True, default="a")


class Pickled:
    """Says itself what belongs to it."""

    def __init__(self, rate):
        self.rate, self.stream = rate, zlib.compressobj()

    def __getstate__(self):
        return {"rate": self.rate}


class Nested:
    def __init__(self, rate):
        self.parts = {"solver": [Plain(np.array([1.0, rate]))], "itself": self}


class Closing:
    def __init__(self, rate):
        self.function = lambda f: rate * f


class Caching:
    def __init__(self, rate):
        self.rate = rate

    @functools.cached_property
    def grid(self):
        return np.arange(3) * self.rate


class Told:
    def __init__(self, rate):
        self.rate, self.calls = rate, 0

    def __seqgp_digest__(self):
        self.calls += 1
        return f"rate {self.rate}"


class Text:
    """Nothing to see but its text."""

    __slots__ = ()
    rates: ClassVar[dict] = {}

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot be pickled")

    def __repr__(self):
        return f"Text({self.rates[id(self)]})"


def text(rate):
    made = Text()
    Text.rates[id(made)] = rate
    return made


def by_default(rate):
    return lambda f, scale=Plain(rate): scale  # noqa: B008


KINDS = [Plain, Slotted, Derived, Record, lambda rate: Module(jnp.asarray(rate)), Pickled, Nested, Closing, Caching,
         Told, text, by_default, Fraction,
         lambda rate: np.array([Plain(rate), None]), lambda rate: {Plain: Plain(rate)},
         lambda rate: functools.partial(Plain.likelihood, Plain(rate)), lambda rate: Plain(rate).likelihood,
         lambda rate: eqx.filter_jit(Plain(rate).likelihood), lambda rate: [rate, 1.0].count,
         lambda rate: dist.TransformedDistribution(dist.Normal(rate, 1.0), dist.transforms.ExpTransform()),
         lambda rate: dist.TruncatedNormal(rate, 1.0, low=0.0),
         lambda rate: dist.MixtureSameFamily(dist.Categorical(np.ones(2) / 2), dist.Normal(np.array([0, rate]), 1.0)),
         ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_known_by_what_it_holds(kind):
    one, again, other = kind(1.0), kind(1.0), kind(50.0)
    assert describe(one) == describe(again)
    assert describe(one) != describe(other)
    assert undescribed(one) == []


def test_what_is_computed_from_the_rest_does_not_count():
    solver = Caching(2.0)
    before = describe(solver)
    assert solver.grid[1] == 2.0
    assert describe(solver) == before


def class_with(body):
    space = {"__name__": "mine"}
    exec(f"class Own:\n    def __init__(self):\n        self.rate = 1.0\n{textwrap.indent(body, '    ')}", space)
    return space["Own"]()


def test_the_code_of_a_class_of_ones_own_counts():
    texts = {
        describe(class_with(body))
        for body in (
            "",
            "def slope(self): return 2.0",
            "def slope(self): return 3.0",
            "@property\ndef slope(self): return 4.0",
            "@staticmethod\ndef slope(): return 5.0",
            "slope = 2.0",
            "slope = 3.0",
        )
    }
    assert len(texts) == 7


def looking_up(f):
    return RATE * f


def test_what_a_function_looks_up_in_its_module_counts(monkeypatch):
    before = describe(looking_up)
    monkeypatch.setitem(globals(), "RATE", 50.0)
    assert describe(looking_up) != before
    monkeypatch.setitem(globals(), "RATE", Plain(1.0))
    held = describe(looking_up)
    monkeypatch.setitem(globals(), "RATE", Plain(50.0))
    assert describe(looking_up) not in (before, held)


def test_what_cannot_be_seen_is_named():
    assert undescribed(lambda f: (f, sealed_stream)) == ["Compress"]
    assert undescribed(Closing(Plain([zlib.decompressobj()]))) == ["Decompress"]


sealed_stream = zlib.compressobj()


def test_the_text_is_that_of_another_process():
    code = (
        "import test_identity_objects as here; from seqgp.base.identity import describe; "
        "print([describe(kind(1.5)) for kind in here.KINDS])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=__file__.rpartition("/")[0],
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].strip()


def holding(content):
    return lambda f: (f, content)


def test_version_0_2_told_objects_by_their_classes():
    # Written down once, by version 0.2: runs that it stored are recognised by these.
    assert describe(Plain(1.0), 2) == "Plain"
    assert describe(Plain(1.0).likelihood, 2) == "Plain.Plain.likelihood#3236d7c26a24"
    assert describe(holding(Slotted(2.0)), 2) == "holding.<locals>.<lambda>#382a3eae7e73"
    assert describe(looking_up, 2) == "looking_up#59c8e1320a6b"
    assert describe(Module(np.ones(2)), 2) == "Module(rate=array(2,)#5f07eef034c5, name='a')"
    assert describe(dist.TruncatedNormal(1.0, 1.0, low=0.0), 2) == "LeftTruncatedDistribution(low=0.0)"
