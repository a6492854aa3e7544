"""Where data are not Gaussian, a run says whether its weights are exact: info, command line and report."""

import json

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.base.info import Exactness
from seqgp.cli.fitting import report_run
from seqgp.report.make import _about_diagnostics

APPROXIMATE = "approximate (paths=0: EP of each snapshot alone)"


def run_of(likelihood, paths, store):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(dist.LogNormal(0.0, 0.5)), seqgp.kernels.Matern12(1.0))
    sampler = seqgp.OnlineSampler(seqgp.Model(kernel, likelihood), particles=16, draws=20, paths=paths)
    snapshots = [seqgp.Snapshot(t, np.zeros((1, 1)), [y]) for t, y in ((0.0, 2.0), (1.0, 0.0))]
    return seqgp.run(sampler, snapshots, key=jax.random.key(0), store=store, progress=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    poisson, gaussian = seqgp.likelihoods.Poisson(), seqgp.likelihoods.Gaussian(0.5)
    return {
        "ep": run_of(poisson, 0, folder / "ep"),
        "paths": run_of(poisson, 16, folder / "paths"),
        "gaussian": run_of(gaussian, 0, folder / "gaussian"),
    }


def printed(run, as_json, capsys):
    report_run(run, as_json)
    return " ".join(capsys.readouterr().out.split())


def test_ep_alone_is_called_approximate(runs, capsys):
    assert runs["ep"].infos[-1].health.endswith(f"; {APPROXIMATE}")
    assert APPROXIMATE in printed(runs["ep"], False, capsys)
    assert _about_diagnostics(runs["ep"].infos).endswith(f"Its weights are {APPROXIMATE}.")
    said = json.loads(printed(runs["ep"], True, capsys))["exact"]
    assert (said["corrected"], said["paths"]) == (False, 0)


def test_paths_are_called_exact(runs, capsys):
    health = runs["paths"].infos[-1].health
    assert "; exact (corrected by paths: 16 for each particle, each log evidence ± " in health
    assert "exact (corrected by paths: 16 for each particle" in printed(runs["paths"], False, capsys)
    assert "Its weights are exact (corrected by paths" in _about_diagnostics(runs["paths"].infos)
    said = json.loads(printed(runs["paths"], True, capsys))["exact"]
    assert (said["corrected"], said["step"], said["paths"]) == (True, 2, 16)


def test_nothing_is_said_of_gaussian_data(runs, capsys):
    """All that they are is exact; nor of runs of earlier versions, of which it is not known."""
    info = runs["gaussian"].infos[-1]
    assert info.exact.remark == ""
    for one in (info, info._replace(exact=None)):
        assert "exact" not in one.health
        assert "weights" not in _about_diagnostics([one])
    assert "approximate" not in printed(runs["gaussian"], False, capsys)


def test_steps_since_a_correction_are_approximate():
    assert Exactness(False, "EP of each snapshot alone since step 7", 7, 16, 0.2).remark == (
        "approximate (EP of each snapshot alone since step 7)"
    )
