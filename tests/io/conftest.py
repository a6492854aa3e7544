"""Compilation is most of the time of these tests, whose arrays are tiny; one run serves those that need any."""

import contextlib
import shutil

import jax
import pytest

import seqgp
from runs import key, sampler, snapshots


@contextlib.contextmanager
def without_optimisation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled():
    with without_optimisation():
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A run of four steps in one go, and its folder, which is only read."""
    folder = tmp_path_factory.mktemp("made") / "run"
    with without_optimisation():  # as the tests that compare with it, to the last bit
        return seqgp.run(sampler(), snapshots(4), key(), store=folder), folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of that run."""
    shutil.copytree(made[1], tmp_path / "run")
    return tmp_path / "run"
