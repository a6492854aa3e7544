"""One run serves the tests that need any."""

import shutil

import pytest

import seqgp
from runs import key, sampler, snapshots


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A run of four steps in one go, and its folder, which is only read."""
    folder = tmp_path_factory.mktemp("made") / "run"
    return seqgp.run(sampler(), snapshots(4), key(), store=folder), folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of that run."""
    shutil.copytree(made[1], tmp_path / "run")
    return tmp_path / "run"
