"""What ``seqgp support`` collects: the versions that run, the model's digest, the last step, few data or none."""

import json

import jax
import numpy as np
import pytest

import seqgp
from seqgp.cli import main
from seqgp.io.support import collect, versions
from seqgp.samplers.validation import model_digest

X = np.linspace(0, 1, 3)[:, None]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern32(0.5), scale=seqgp.ScaledSigmoid(0, 2)),
        seqgp.likelihoods.Gaussian(0.3),
    )
    snapshots = [seqgp.Snapshot(float(t), X, [0.1, np.nan, t]) for t in range(2)]
    sampler = seqgp.OnlineSampler(model, particles=16, draws=20)
    folder = tmp_path_factory.mktemp("runs") / "line"
    return seqgp.run(sampler, snapshots, key=jax.random.key(0), store=folder, progress=False)


def test_versions_are_those_that_run():
    found = versions()
    assert found["seqgp"] == seqgp.__version__
    assert found["jax"] == jax.__version__
    assert {"pandas", "numpyro", "equinox", "typer"} <= set(found)


def test_a_run_and_its_store_give_the_same(run):
    memory, disk = collect(run), collect(run.store)
    assert memory["model"]["digest"] == disk["model"]["digest"] == model_digest(run.model)
    for part in ("posterior", "info", "machine"):
        assert memory[part] == disk[part]
    np.testing.assert_array_equal(memory["snapshot"]["y"], run.snapshot.y)
    assert memory["snapshot"]["missing"] == 1
    assert memory["posterior"]["scale"]["mean"] == pytest.approx(np.mean(run.state.parameters["scale"]))


def test_the_command_writes_strict_json_without_data_on_request(run, tmp_path, capsys):
    file = tmp_path / "support.json"
    with pytest.raises(SystemExit) as ended:
        main(["support", str(run.store.path), "-o", str(file), "--rows", "0"])
    assert ended.value.code == 0
    found = json.loads(file.read_text(), parse_constant=lambda name: 1 / 0)
    assert "y" not in found["snapshot"]
    assert found["info"]["log_evidence"] == run.infos[-1].log_evidence
    assert "no data" in capsys.readouterr().out


def test_without_a_run_it_tells_the_installation(capsys):
    with pytest.raises(SystemExit):
        main(["support", "--json"])
    assert set(json.loads(capsys.readouterr().out)) == {"versions", "machine"}
