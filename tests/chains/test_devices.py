"""Chains over several devices: the draws of one device, up to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import seqgp
from seqgp.chains import draw
from seqgp.runtime.devices import spread
from streams import model, sampled, snapshots

CODE = """
import sys
import jax, numpy as np
import seqgp
seqgp.enable_x64()
jax.config.update("jax_disable_most_optimizations", True)
sys.path[:0] = sys.argv[1:3]
from test_devices import drawn
np.savez(sys.argv[3], **drawn())
"""


def drawn():
    """Draws of four chains after two steps, and how many devices the chains were on."""
    found, advance = {}, draw.advance

    def watched(key, chains, *args):
        after, *rest = advance(key, chains, *args)
        found["devices"] = len(after.positions[0].z.sharding.device_set)
        return after, *rest

    draw.advance = watched
    try:
        state, info = sampled(seqgp.SequentialSampler(model(), draws=12, chains=4, warmup=6), snapshots()[:2])
    finally:
        draw.advance = advance
    evaluations = info.updates["parameters"].evaluations
    return found | {"z": state.z, "latent": state.latent, "evaluations": evaluations, "even": [spread(3), spread(4)]}


@pytest.fixture(scope="module")
def on_four(tmp_path_factory):
    path, here = tmp_path_factory.mktemp("four") / "four.npz", Path(__file__).parent
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", CODE, str(here), str(here.parent), str(path)]
    ended = subprocess.run(command, env=os.environ | flags, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return np.load(path)


def test_chains_over_devices_draw_the_same(on_four):
    """Four chains are one a device; three could not be shared out evenly, and would stay on the cores of the first."""
    assert jax.device_count() == 1
    alone = drawn()
    assert (int(on_four["devices"]), alone["devices"]) == (4, 1)
    assert on_four["even"].tolist() == [False, True]
    for name in ("z", "latent", "evaluations"):
        np.testing.assert_allclose(on_four[name], alone[name], rtol=1e-8, atol=1e-8, err_msg=name)
