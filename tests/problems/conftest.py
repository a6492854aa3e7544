"""Compilation is most of the time of these tests, whose arrays are tiny."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
