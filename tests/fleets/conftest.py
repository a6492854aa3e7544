"""Compiled once for this process and the workers of a cluster."""

import os

import jax
import pytest

SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(autouse=True, scope="module")
def compiled_once(tmp_path_factory):
    here = SETTINGS | {"jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled"))}
    before, environment = {name: getattr(jax.config, name) for name in SETTINGS}, dict(os.environ)
    for name, value in here.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
    yield
    os.environ.clear()
    os.environ |= environment
    for name, value in before.items():
        jax.config.update(name, value)
