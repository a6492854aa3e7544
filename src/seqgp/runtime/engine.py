"""Compiled once, run on all cores: a cache of compiled functions, and threads over groups of chains."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree
from threadpoolctl import ThreadpoolController

from seqgp.runtime import stopping
from seqgp.runtime.memory import check_fits

Result = TypeVar("Result")

_CACHE: OrderedDict[object, Any] = OrderedDict()  # compiled functions
_SHAPES: OrderedDict[object, Any] = OrderedDict()  # small things, many of them: they drive no compiled ones out
_CACHE_SIZE = 64
REMEDY = "take fewer points or draws at a time, fewer particles or chains, or latent=seqgp.Knots(…)"
FUSION_EMITTERS = "xla_cpu_use_fusion_emitters"
_LOCK = threading.Lock()
_local = threading.local()


def _is_array(leaf: PyTree) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, jax.Array))


def compiled(function: Callable, *args: PyTree) -> tuple[Callable[[], PyTree], float]:
    """``function(*args)`` ready to run, and the seconds that its compilation took (0 where it had been compiled).

    Arrays are arguments; everything else in ``args`` (models, settings) is compiled in, and is part of the cache's key.
    """
    run, seconds = compiled_function(function, args, ())
    return lambda: run(), seconds


def compiled_function(function: Callable, fixed: tuple, varying: tuple) -> tuple[Callable[..., PyTree], float]:
    """The same for ``function(*fixed, *varying)`` that is called often: what is ready to run takes ``*varying``."""
    parts = [_parted(one) for one in fixed]
    arrays, static = tuple(part.arrays for part in parts), tuple(part.static for part in parts)

    def build():
        def whole(arrays, varying):
            return function(*eqx.combine(arrays, static), *varying)

        return jax.jit(whole).lower(arrays, varying).compile(compiler_options=_compiler_options())

    (ready, needed), seconds = _cached(_CACHE, _key(function, (arrays, varying), parts), lambda: _measured(build()))
    if len(jax.local_devices()) == 1:  # on several, each array goes where the program wants it
        fresh = iter(jax.device_put([part.arrays for part in parts if not part.placed]))
        arrays = tuple(part.arrays if part.placed else next(fresh) for part in parts)

    def run(*varying):
        check_fits(needed, f"a computation ({getattr(function, '__name__', 'unnamed').strip('_')})", REMEDY)
        return jax.block_until_ready(ready(arrays, varying))

    return run, seconds


def _measured(program: Any) -> tuple[Any, int]:
    """A compiled program, and the bytes that it needs beside its arguments, as far as the compiler says."""
    found = program.memory_analysis()
    return program, 0 if found is None else found.temp_size_in_bytes + found.output_size_in_bytes


@functools.cache
def _compiler_options() -> dict[str, str | bool]:
    """Options for XLA: on a CPU its newer way to emit loops takes twice as long, for programs that are no faster."""
    if jax.default_backend() != "cpu" or FUSION_EMITTERS in os.environ.get("XLA_FLAGS", ""):
        return {}
    options: dict[str, str | bool] = {FUSION_EMITTERS: False}
    try:
        jax.jit(lambda x: x).lower(0.0).compile(compiler_options=options)
    except jax.errors.JaxRuntimeError:  # a version of XLA that has no such option
        return {}
    return options


def cached_by_shape(function: Callable, *args: PyTree) -> Any:
    """``function(*args)``, of which only the shapes of arrays matter, found once."""
    parts = [_parted(one) for one in args]
    return _cached(_SHAPES, _key(function, tuple(part.arrays for part in parts), parts), lambda: function(*args))[0]


class _Identity:
    """What is compiled in, as part of a key: hashed once, because models are deep."""

    def __init__(self, static: object):
        leaves, structure = jax.tree.flatten(static)
        self._value = structure, tuple(leaves)
        self._hash = hash(self._value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Identity) and self._value == other._value)


class _Parted(NamedTuple):
    """An argument: its arrays, and what is compiled in."""

    arrays: PyTree
    static: Any
    identity: _Identity
    placed: bool  # whether the arrays are on the device


_PARTED: dict[int, tuple[weakref.ref, _Parted]] = {}


def _parted(argument: object) -> _Parted:
    """Modules never change and come again at each step, so each is taken apart once while it lives."""
    if not isinstance(argument, eqx.Module):
        arrays, static = eqx.partition(argument, _is_array)
        return _Parted(arrays, static, _Identity(static), placed=False)
    number = id(argument)
    known = _PARTED.get(number)
    if known is not None and known[0]() is argument:
        return known[1]
    arrays, static = eqx.partition(argument, _is_array)
    alone = len(jax.local_devices()) == 1
    parted = _Parted(jax.device_put(arrays) if alone else arrays, static, _Identity(static), placed=alone)
    _PARTED[number] = weakref.ref(argument, lambda _: _PARTED.pop(number, None)), parted
    return parted


def _key(function: Callable, arrays: PyTree, parts: Sequence[_Parted]) -> object:
    leaves, structure = jax.tree.flatten(arrays)
    return (
        function,
        tuple(part.identity for part in parts),
        structure,
        tuple((leaf.shape, leaf.dtype) for leaf in leaves),
    )


def _cached(cache: OrderedDict[object, Any], key: object, build: Callable[[], object]) -> tuple[Any, float]:
    with _LOCK:
        if key in cache:
            cache.move_to_end(key)
            return cache[key], 0.0
        stopping.check()  # compiling cannot be stopped, but the next one need not begin
        start = time.perf_counter()
        cache[key] = build()
        if len(cache) > _CACHE_SIZE:
            cache.popitem(last=False)
        return cache[key], time.perf_counter() - start


def forget() -> None:
    """Let go of all that was compiled: memory is given back, and what is needed again is compiled again."""
    with _LOCK:
        _CACHE.clear()
        _SHAPES.clear()
        _PARTED.clear()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Whoever calls from this thread has so many cores; all, where it is left open. Results do not depend on it."""
    before, _local.threads = getattr(_local, "threads", None), threads
    try:
        yield
    finally:
        _local.threads = before


@functools.cache
def _controller() -> ThreadpoolController:
    """Of the linear algebra libraries that are loaded: looking for them takes milliseconds."""
    return ThreadpoolController()


def in_threads(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks on all cores, in order of their results; compiled code runs outside the interpreter's lock.

    Each task factors its own matrices, so the threads of the linear algebra library would only get in the way.
    """
    with _controller().limit(limits=1, user_api="blas"):
        threads = min(getattr(_local, "threads", None) or cores(), len(tasks))
        if threads <= 1:
            return [task() for task in tasks]
        abandoned = threading.Event()
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(stopping.abandonable, task, abandoned) for task in tasks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                abandoned.set()  # leaving the pool waits for what runs: it should not run to its end
                for future in futures:
                    future.cancel()
                raise
