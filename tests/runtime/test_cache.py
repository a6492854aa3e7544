"""Compiled code on disk: another process finds it, and neither versions nor killed processes spoil it."""

import os
import subprocess
import sys
import time

import jax
import pytest
from jax._src.lru_cache import LRUCache

from seqgp.runtime import cache as module
from seqgp.runtime.cache import CacheError, cache

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """No cache chosen before, and the settings as they were after."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    monkeypatch.delenv(module.VARIABLE, raising=False)
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


COMPILE = """
import jax, jax.numpy as jnp, logging, sys
from jax import monitoring
import seqgp
seqgp.enable_x64()
seqgp.cache(sys.argv[1])
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
def slow(x):
    for i in range(30):
        x = jnp.sin(x @ x) + i
    return x
jax.block_until_ready(jax.jit(slow)(jnp.ones((20, 20))))
print(events.count("/jax/compilation_cache/cache_hits"), events.count("/jax/compilation_cache/cache_misses"))
"""


def compiled_elsewhere(folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {"JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, "-c", COMPILE, str(folder)], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    hits, misses = map(int, ended.stdout.split())
    return hits, misses, ended.stderr


def test_the_next_process_compiles_nothing(tmp_path):
    hits, misses, _ = compiled_elsewhere(tmp_path)
    assert (hits, misses > 0) == (0, True)
    hits, misses, said = compiled_elsewhere(tmp_path)
    assert (hits > 0, misses) == (True, 0)
    assert said == ""


def test_a_process_that_was_killed_while_writing_leaves_nothing_that_stays(tmp_path):
    compiled_elsewhere(tmp_path)
    (place,) = tmp_path.iterdir()
    half = max(place.glob("*-cache"), key=lambda path: path.stat().st_size)
    half.write_bytes(half.read_bytes()[:100])
    half.with_name(half.name.removesuffix("-cache") + "-atime").unlink()
    assert cache(tmp_path) == place
    assert not half.exists()
    assert len(list(place.glob("*-cache"))) == len(list(place.glob("*-atime")))
    assert compiled_elsewhere(tmp_path)[1:] == (1, "")  # compiled again, without a complaint
    assert compiled_elsewhere(tmp_path)[1:] == (0, "")


def test_the_lock_is_the_one_that_jax_takes(tmp_path):
    assert LRUCache(str(tmp_path), max_size=module.LARGEST).lock_path.name == module.LOCK


def test_versions_and_processors_have_folders_of_their_own(tmp_path, monkeypatch):
    first = cache(tmp_path)
    monkeypatch.setattr(module, "version", lambda name: "99.0")
    second = cache(tmp_path)
    monkeypatch.setattr(module, "_processor", lambda: ["another"])
    assert len({first, second, cache(tmp_path)}) == 3


def test_folders_of_other_versions_go_when_nobody_uses_them(tmp_path):
    for name, age in (("jax-0.1-old", 2 * module.UNUSED), ("jax-0.2-used", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / module.LOCK).touch()
        when = time.time() - age
        os.utime(tmp_path / name / module.LOCK, (when, when))
    (tmp_path / "jax-mine").mkdir()  # not one of JAX's: no lock in it
    cache(tmp_path)
    assert {path.name[:10] for path in tmp_path.iterdir()} == {"jax-0.2-us", "jax-mine", cache(tmp_path).name[:10]}


@pytest.mark.parametrize("word", ["off", "0", "No"])
def test_it_can_be_switched_off(word, monkeypatch):
    monkeypatch.setenv(module.VARIABLE, word)
    assert cache() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "kept here"))
    assert cache().parent == tmp_path / "kept here"
    assert jax.config.jax_compilation_cache_dir == str(cache())


def test_what_was_chosen_before_stays(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    assert cache() == tmp_path / "mine"


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match=r"compiled code cannot be kept here .* SEQGP_CACHE=off"):
        cache(tmp_path / "file")
