"""Double precision everywhere; strict promotion and checked keys in the tests of the core; memory given back."""

import ctypes
import gc
import os

import jax
import pytest

from seqgp.runtime import engine

os.environ.setdefault("SEQGP_CACHE", "off")  # the tests leave the user's cache folder alone
jax.config.update("jax_enable_x64", True)

CORE = {"models", "latents", "mcmc", "chains", "sequential"}
STRICT = {  # in these tests, and elsewhere
    "jax_numpy_dtype_promotion": ("strict", "standard"),
    "jax_numpy_rank_promotion": ("raise", "allow"),
    "jax_debug_key_reuse": (True, False),
    # Compilation is most of the time of these tests, whose arrays are tiny.
    "jax_disable_most_optimizations": (True, False),
}


@pytest.fixture(autouse=True, scope="module")
def strict(request):
    """The library neither promotes dtypes or ranks silently, nor uses a key twice."""
    if not CORE & set(request.path.parts):
        yield
        return
    # The settings are global, not a context: chains run in threads of their own.
    for name, (here, _) in STRICT.items():
        jax.config.update(name, here)
    yield
    for name, (_, elsewhere) in STRICT.items():
        jax.config.update(name, elsewhere)


@pytest.fixture(autouse=True, scope="module")
def nothing_compiled_is_left():
    """What a module compiled is used by no other, and is gigabytes after a few of them."""
    yield
    engine.forget()
    jax.clear_caches()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps what was freed unless it is told
    if trim is not None:
        trim(0)
