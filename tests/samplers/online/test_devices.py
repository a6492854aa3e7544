"""Particles over several devices: the draws of one device, up to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CODE = """
import sys
import jax, numpy as np
import seqgp
seqgp.enable_x64()
sys.path.insert(0, sys.argv[1])
from seqgp.samplers.online.filters import advanced, chosen, either
from streams import model, sampled, snapshots
found = {}
for name, data in {"rotated": snapshots(), "dense": snapshots(missing=0.2), "late": snapshots(late=True)}.items():
    state, info = sampled(seqgp.OnlineSampler(model(), particles=32, draws=20), data[:7])
    (matrices, filters), *more = state.live.filters.groups
    leaf = jax.tree.leaves(filters)[0]
    used = len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1
    prediction = seqgp.predict(jax.random.key(5), model(), state, data[0].x, t=data[6].t + 1)
    found |= {f"{name}/latent": state.latent, f"{name}/z": state.z, f"{name}/used": used, f"{name}/y": prediction.y}
    found[f"{name}/evidence"] = info.log_evidence
    found[f"{name}/rejuvenations"] = len(info.rejuvenations)
    order = np.random.default_rng(0).permutation(32)  # as a rejuvenation does that moves particles
    mixed = either(order % 3 == 0, chosen(state.live.filters, order), state.live.filters)
    found[f"{name}/moved"] = advanced(state.live.history.with_snapshot(data[7]), mixed)[1]
np.savez(sys.argv[2], **found)
"""


def drawn(devices, path):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    matrices = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    here = str(Path(__file__).parents[2])
    ended = subprocess.run([sys.executable, "-c", CODE, here, str(path)], env=matrices, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return np.load(path)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return drawn(1, tmp_path_factory.mktemp("one") / "one.npz")


@pytest.mark.parametrize("devices", [4])
def test_particles_over_devices_draw_the_same(devices, alone, tmp_path):
    many = drawn(devices, tmp_path / "many.npz")
    for name in alone.files:
        if name.endswith("/used"):
            assert (alone[name], many[name]) == (1, devices)
        else:
            np.testing.assert_allclose(many[name], alone[name], rtol=1e-8, atol=1e-8, err_msg=name)
