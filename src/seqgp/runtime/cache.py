"""Compiled code kept on disk: what one process compiled, the next one loads."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
from importlib.metadata import version
from pathlib import Path

import jax
import platformdirs
from filelock import FileLock, Timeout

from seqgp.base.errors import SeqgpError

VARIABLE = "SEQGP_CACHE"  # a folder, or one of OFF
OFF = ("0", "off", "no", "false")
LARGEST = 1 << 30  # bytes; what was not used for longest goes first
QUICKEST = 0.01  # seconds of compilation below which a file on disk gains nothing
UNUSED = 60 * 24 * 3600  # seconds after which a folder of another version is removed
LOCK = ".lockfile"  # of JAX's own cache
PATIENCE = 5.0  # seconds to wait for another process


class CacheError(SeqgpError, OSError):
    """A folder in which compiled code cannot be kept."""


def cache(folder: str | Path | None = None) -> Path | None:
    """Keep compiled code on disk, so that the next process need not compile it again.

    This is JAX's persistent compilation cache, in the user's cache folder, separate for each version of JAX and each
    kind of processor. Processes may share it, and may be killed. If ``JAX_COMPILATION_CACHE_DIR`` is set, that cache
    stays. The command line calls this function.

    Args:
        folder: where to keep it; by default the folder in the environment variable ``SEQGP_CACHE``, else the user's
            cache folder. ``SEQGP_CACHE=off`` switches it off.

    Returns:
        The folder in use, or None where it is switched off.

    Raises:
        CacheError: the folder cannot be written to.
    """
    asked = os.environ.get(VARIABLE, "").strip()
    if folder is None and asked.lower() in OFF:
        return None
    chosen = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009
    if folder is None and chosen:
        return Path(chosen)
    root = Path(folder or asked or platformdirs.user_cache_path("seqgp")).expanduser()
    place = root / _kind()
    try:
        place.mkdir(parents=True, exist_ok=True)
        _mend(place)
        _remove_unused(root, place)
    except OSError as error:
        raise CacheError(
            f"{place}: compiled code cannot be kept here ({error.strerror or error}); choose a folder with "
            f"seqgp.cache(folder) or {VARIABLE}=FOLDER, or switch it off with {VARIABLE}=off"
        ) from error
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_compilation_cache_max_size", LARGEST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", QUICKEST)
    return place


def _kind() -> str:
    """What compiled code depends on beyond JAX's own key: a folder may be shared by machines of several kinds."""
    described = [platform.system(), platform.machine(), *_processor()]
    digest = hashlib.sha256("\n".join(described).encode()).hexdigest()[:8]
    return f"jax-{version('jax')}-{version('jaxlib')}-{platform.machine().lower()}-{digest}"


def _processor() -> list[str]:
    """The instructions that this processor knows, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({word for line in lines if line.startswith(("flags", "Features")) for word in line.split()})


def _mend(place: Path) -> None:
    """Remove what a process left half written when it was killed: JAX would complain of it ever after.

    JAX writes ``KEY-cache`` and then ``KEY-atime``, both under its lock: who holds the lock and finds the first alone
    has found a remainder.
    """
    try:
        with FileLock(place / LOCK, timeout=PATIENCE):
            for path in place.glob("*-cache"):
                if not path.with_name(path.name.removesuffix("-cache") + "-atime").exists():
                    path.unlink()
    except Timeout:  # others are busy; whoever comes next will see to it
        return


def _remove_unused(root: Path, place: Path) -> None:
    """Remove the folders of other versions that nobody has used for long."""
    for other in root.glob("jax-*"):
        if other == place or not (other / LOCK).exists():
            continue
        used = max(path.stat().st_mtime for path in [other / LOCK, *other.glob("*-atime")])
        if time.time() - used > UNUSED:
            shutil.rmtree(other, ignore_errors=True)
