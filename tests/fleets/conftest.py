"""Compiled little, and once for this process and the workers of a cluster."""

import os

import jax
import pytest

SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled(tmp_path_factory):
    here = SETTINGS | {"jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled"))}
    before, environment = {name: getattr(jax.config, name) for name in SETTINGS}, dict(os.environ)
    jax.config.update("jax_disable_most_optimizations", True)
    for name, value in here.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    yield
    os.environ.clear()
    os.environ |= environment
    jax.config.update("jax_disable_most_optimizations", False)
    for name, value in before.items():
        jax.config.update(name, value)
