"""What identifies a function: its source and what it closes over, in any process and under any Python."""

import dis
import os
import subprocess
import sys
import textwrap
import types

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from seqgp.base.identity import describe, without_code


def scaled(f, context, factor):
    return dist.Normal(factor * f, 1.0)


def of_a_set(f, context):
    return dist.Normal(f, 1.0 if f.ndim in {1, 2, 3} and "a" not in {"x", "y", "z"} else 2.0)


def of_strings(f, context):
    return dist.Normal(f, 1.0 if f"{f!r:>{context}} {f}a" else 2.0)


def test_the_text_is_the_same_under_every_python():
    # Written down once: a Python or a release that tells another text refuses runs that others have stored.
    assert describe(scaled) == "scaled#7562440519b7"
    assert describe(of_a_set) == "of_a_set#b374663a611d"
    assert describe(of_strings) == "of_strings#a5a2640bce28"


def as_another_python_compiles(function):
    """The same function with other instructions and constants."""
    code = function.__code__
    nop = bytes([dis.opmap["NOP"], 0])
    other = code.replace(co_code=code.co_code + nop, co_consts=(*code.co_consts, "unused"))
    return types.FunctionType(
        other, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


@pytest.mark.parametrize("function", [scaled, lambda f, context: dist.Normal(2.0 * f, 1.0)])
def test_bytecode_does_not_count(function):
    other = as_another_python_compiles(function)
    assert other.__code__.co_code != function.__code__.co_code
    other.__qualname__ = function.__qualname__
    assert describe(other) == describe(function)


def test_neither_source_nor_fallback_depends_on_the_hash_seed(tmp_path):
    (tmp_path / "module.py").write_text("def f(x):\n    return x in {'a', 'b', 'c', 'd'}\n")
    code = textwrap.dedent(
        """
        import module
        from seqgp.base.identity import describe
        namespace = {}
        exec("def g(x):\\n    return x in {'a', 'b', 'c', 'd'}", namespace)
        print(describe(module.f), describe(namespace["g"]), describe({"a", "b", "c", "d"}))
        """
    )

    def told(seed):
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert len({told(seed) for seed in (1, 2, 3)}) == 1


def test_layout_comments_annotations_and_docstring_do_not_count():
    def plain(f, context):
        return dist.Normal(f + 1.0, 1.0)

    first = describe(plain)

    def plain(f: jnp.ndarray, context: dict) -> dist.Normal:
        """Says something."""
        # Why this is so.
        return dist.Normal(
            f + 1.0,
            1.0,
        )

    assert describe(plain) == first


# fmt: off
PAIR = (lambda f: 2.0 * f), (lambda f: 3.0 * f)
NESTED = lambda f: lambda g: f + g  # noqa: E731
# fmt: on


def test_functions_on_one_line_are_told_apart():
    assert describe(PAIR[0]) != describe(PAIR[1])
    assert describe(PAIR[0]) == describe(lambda f: 2.0 * f).replace(
        "test_functions_on_one_line_are_told_apart.<locals>.", ""
    )
    assert describe(NESTED).split("#")[1] != describe(NESTED(1.0)).split("#")[1]


def mutual(factor):
    def even(n):
        return factor if n == 0 else odd(n - 1)

    def odd(n):
        return -factor if n == 0 else even(n - 1)

    return even


class Held:
    def __init__(self, value):
        self.value = value

    def method(self, f):
        return f


def holding(content):
    return lambda f: (f, content)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mutual(1.0), mutual(2.0)),
        (holding({1, 2}), holding({1, 3})),
        (holding(dist.Normal), holding(dist.Laplace)),
        (holding(jnp.exp), holding(jnp.log)),
        (holding(np.exp), holding(np.log)),
        (holding(1j), holding(2j)),
        (holding(textwrap.dedent), holding(textwrap.indent)),
        (holding(Held(1.0).method), holding(Held.method)),
    ],
)
def test_what_is_closed_over_counts(one, other):
    assert describe(one) != describe(other)
    assert describe(one) == describe(one)


def test_functions_of_libraries_are_known_by_their_names():
    assert describe(textwrap.dedent) == "dedent@textwrap"
    assert describe(jnp.exp).startswith("exp@jax")
    assert without_code("Gaussian(function=_gaussian#0123456789ab)") == "Gaussian(function=_gaussian)"
    assert without_code("Gaussian(function=_gaussian@seqgp)") == "Gaussian(function=_gaussian)"
    assert without_code("a.<lambda>#0123456789ab, array(3,)#0123456789ab") == "a.<lambda>, array(3,)#0123456789ab"
