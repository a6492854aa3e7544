"""A run that its parent kills: `python killed.py FOLDER CACHE PAUSE SAMPLER`. A sync takes a while, to be hit in it."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

import seqgp  # noqa: E402
from runs import key, model, sampler, snapshots  # noqa: E402

sync, pause = os.fsync, float(sys.argv[3])


def slow_sync(descriptor: int) -> None:
    """As on a slow disk."""
    time.sleep(pause)
    sync(descriptor)


os.fsync = slow_sync
print("ready", flush=True)
chosen = sampler() if sys.argv[4] == "sequential" else seqgp.OnlineSampler(model(), particles=16, draws=20)
data = snapshots()
if sys.argv[4] == "late":  # the third comes after the fourth, and the second is corrected at the end
    data = [data[0], data[1]._replace(y=data[1].y + 1), data[3], data[2], *data[4:], data[1]]
seqgp.run(chosen, data, key(), store=sys.argv[1], keep=3)
print("finished", flush=True)
