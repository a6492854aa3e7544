"""The memory that there is, and errors by name where a computation would need more of it."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from seqgp.base.errors import SamplerError

BYTES_PER_FLOAT = 8  # bytes
WORTH_ASKING = 2**27  # bytes: for less, the machine is not asked
CGROUPS = (  # limit and use of a container, of either version
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def check_fits(needed: float, what: str, remedy: str) -> None:
    """Raise where so many bytes are not available.

    Args:
        needed: bytes.
        what: of which computation, with its sizes.
        remedy: what to do instead.
    """
    available = available_bytes() if needed >= WORTH_ASKING else None
    if available is not None and needed > available:
        raise SamplerError(f"{what} needs {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are available; {remedy}")


def available_bytes() -> int | None:
    """Of the device, or of the machine and its container; ``None`` where nothing says."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        limit = stats.get("bytes_limit")
        return None if limit is None else (limit - stats.get("bytes_in_use", 0)) * len(jax.local_devices())
    known = [one for one in (_of_machine(), *(_left_in(*files) for files in CGROUPS)) if one is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo") as lines:
            entries = dict(line.split(":", 1) for line in lines)
        return int(entries["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        pages = {name: os.sysconf(name) for name in ("SC_PAGE_SIZE", "SC_PHYS_PAGES") if name in os.sysconf_names}
        return pages["SC_PAGE_SIZE"] * pages["SC_PHYS_PAGES"] if len(pages) == 2 else None


def _left_in(limit: str, used: str) -> int | None:
    """What a container has left; its caches of files count as used, and are given back where memory is short."""
    try:
        most, now = (int(Path(file).read_text()) for file in (limit, used))
        stat = dict(line.split() for line in Path(used).with_name("memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or one without a limit
        return None
    files = next((int(stat[name]) for name in ("inactive_file", "total_inactive_file") if name in stat), 0)
    return max(most - now + files, 0)
