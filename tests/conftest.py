"""Double precision everywhere; strict promotion and checked keys in the tests of the core; memory given back."""

import ctypes
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile

import jax
import jaxtyping
import pytest
from threadpoolctl import threadpool_limits

import shapes

SHAPED = {"fields"}  # rooms whose functions check the shapes of arrays, in their own tests
jaxtyping.install_import_hook([f"seqgp.{room}" for room in sorted(SHAPED)], "shapes.checked")

from seqgp.runtime import engine  # noqa: E402  (modules imported from here on are checked)

# A shell that starts the tests in the background has them ignore Ctrl-C, and so do the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("SEQGP_CACHE", "off")  # the tests leave the user's cache folder alone
# Matrices are tiny here: a second thread of OpenBLAS only waits for more, busily, on the core of another worker.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for libraries that are loaded later, and in subprocesses
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas")  # for those that are loaded
# Compiling is most of the time of tests, whose arrays are tiny: here and in the processes that they start, XLA does it
# the quick way. Each program in one part: in several, and without optimisation, derivatives of the local volatility
# solver come out wrong. What XLA_FLAGS already says comes last: XLA_FLAGS=--xla_backend_optimization_level=3 optimises.
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ["XLA_FLAGS"] = f"{QUICKLY} {os.environ.get('XLA_FLAGS', '')}".strip()
OWN_CACHE = "JAX_COMPILATION_CACHE_DIR" not in os.environ
if OWN_CACHE:  # what one file, worker or subprocess of a run compiles, the others read
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="seqgp-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update(
    "jax_persistent_cache_min_compile_time_secs", float(os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", 1))
)
jax.config.update("jax_enable_x64", True)

STRICT = {"base", "kernels", "likelihoods", "means", "test_model.py", "fields", "mcmc", "sequential"}
RANDOM = {*STRICT, "statespace", "samplers"}  # their arrays broadcast over times, paths and particles on purpose
SETTINGS = {  # in the tests of which rooms, what there, and what elsewhere
    "jax_numpy_dtype_promotion": (STRICT, "strict", "standard"),
    "jax_numpy_rank_promotion": (STRICT, "raise", "allow"),
    "jax_debug_key_reuse": (RANDOM, True, False),
}


@pytest.fixture(autouse=True, scope="module")
def strict(request):
    """The library neither promotes dtypes or ranks silently, nor uses a key twice."""
    # The settings are global, not a context: chains run in threads of their own.
    parts = set(request.path.relative_to(request.config.rootpath).parts)  # the checkout's own folder may be called base
    for name, (rooms, here, elsewhere) in SETTINGS.items():
        jax.config.update(name, here if rooms & parts else elsewhere)
    shapes.rooms["on"] = bool(SHAPED & parts)
    yield
    shapes.rooms["on"] = False
    for name, (_, _, elsewhere) in SETTINGS.items():
        jax.config.update(name, elsewhere)


def let_go_of_what_is_compiled():
    """It is read from the cache on disk where it is needed again."""
    engine.forget()
    jax.clear_caches()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps what was freed unless it is told
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """What the process has in memory now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


MUCH = 1.5e9  # bytes of a worker, above which what a test compiled is not kept for the next one of its module


@pytest.fixture(autouse=True)
def little_compiled_is_kept():
    """A module of many models has gigabytes of programs at its end."""
    yield
    if resident_bytes() > MUCH:
        let_go_of_what_is_compiled()


@pytest.fixture(autouse=True, scope="module")
def nothing_compiled_is_left():
    """What a module compiled is used by no other, and is gigabytes after a few of them."""
    yield
    let_go_of_what_is_compiled()


# The rooms and files that take longest: begun first, so that what is left at the end is short for all workers.
LONG = {"docs", "sequential", "statistical", "mcmc", "reference", "io", "cli", "test_demo.py", "test_solver_stream.py"}


def pytest_collection_modifyitems(items):
    """Files stay in order; xdist would begin with those of most tests, and end with long ones of few."""
    items.sort(key=lambda item: not LONG & set(item.path.parts))


def pytest_collection_finish():
    """Tracing makes many objects, little of it garbage: that is searched for rarely, not at all in what is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


PEAKS = {}  # of the memory of each worker and of its largest subprocess, in GB


def _peaks():
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return [resource.getrusage(who).ru_maxrss * unit / 1e9 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def pytest_sessionfinish(session):
    """A worker tells the controller how much memory it needed; without workers there is only this process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peaks"] = _peaks()
    elif not PEAKS:
        PEAKS["main"] = _peaks()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """What a worker told."""
    if "peaks" in getattr(node, "workeroutput", {}):
        PEAKS[node.gateway.id] = node.workeroutput["peaks"]


def pytest_terminal_summary(terminalreporter):
    """The memory that the run needed: below 4 GB for two workers."""
    workers = " + ".join(f"{own:.1f}" for own, _ in PEAKS.values())
    child = max(child for _, child in PEAKS.values())
    total = sum(own for own, _ in PEAKS.values())
    terminalreporter.write_line(f"peak memory: {workers} = {total:.1f} GB, and {child:.1f} GB in a subprocess at most")


def pytest_unconfigure(config):
    """The cache of this run is of no other."""
    if OWN_CACHE and not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
