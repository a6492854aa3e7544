"""Compilation is most of the time of the tests that sample."""

import jax
import pytest

QUICK = {"test_export", "test_fit", "test_model", "test_montecarlo"}


@pytest.fixture(autouse=True, scope="module")
def quick(request):
    wanted = request.path.stem in QUICK
    jax.config.update("jax_disable_most_optimizations", wanted)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
