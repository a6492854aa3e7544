"""Chains over several devices: the draws of one device, up to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import seqgp
from seqgp.mcmc import sample as draw
from seqgp.runtime.parallel import spread
from streams import model, sampled, snapshots

CODE = """
import sys
import jax, numpy as np
import seqgp
seqgp.enable_x64()
sys.path[:0] = sys.argv[1:3]
from test_devices import drawn
np.savez(sys.argv[3], **drawn())
"""


def drawn():
    """Draws of four chains, and how many devices they were on: a sequence of two steps, and both times at once."""
    found, advance = {"even": [spread(3), spread(4)]}, draw.advance

    def watched(key, chains, *args):
        after, *rest = advance(key, chains, *args)
        found["devices"] = len(after.positions[0].z.sharding.device_set)
        return after, *rest

    draw.advance, data, few = watched, snapshots()[:2], {"draws": 12, "chains": 4, "warmup": 6}
    try:
        for name, sample in (
            ("sequential", lambda: sampled(seqgp.SequentialSampler(model(), **few), data)),
            ("full", lambda: seqgp.FullSampler(model(), **few).sample(jax.random.key(2), data)),
        ):
            state, info = sample()
            found |= {f"{name}/z": state.z, f"{name}/devices": found.pop("devices")}
            found[f"{name}/latent"] = np.ravel(state.latent)
            found[f"{name}/evaluations"] = sum(update.evaluations for update in info.updates.values())
    finally:
        draw.advance = advance
    return found


@pytest.fixture(scope="module")
def on_four(tmp_path_factory):
    path, here = tmp_path_factory.mktemp("four") / "four.npz", Path(__file__).parent
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", CODE, str(here), str(here.parent), str(path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return np.load(path)


@pytest.fixture(scope="module")
def on_one():
    assert jax.device_count() == 1
    return drawn()


@pytest.mark.parametrize("sampler", ["sequential", "full"])
def test_chains_over_devices_draw_the_same(on_four, on_one, sampler):
    """Four chains are one a device; three could not be shared out evenly, and would stay on the cores of the first."""
    assert (int(on_four[f"{sampler}/devices"]), on_one[f"{sampler}/devices"]) == (4, 1)
    assert on_four["even"].tolist() == [False, True]
    for what in ("z", "latent", "evaluations"):
        name = f"{sampler}/{what}"
        np.testing.assert_allclose(on_four[name], on_one[name], rtol=1e-8, atol=1e-8, err_msg=name)
