"""A disk that is full: every export says so, leaves nothing behind, and the process lives on."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("data") / "version_0_1_0" / "run"


def small_files():
    """No file may grow beyond a kilobyte: what a write to a full disk looks like, without one."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def on_a_full_disk(*arguments):
    command = [sys.executable, "-m", "seqgp.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, preexec_fn=small_files, check=False,
        env=os.environ | {"SEQGP_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": ""},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["out.nc", "out.zarr", "out.parquet"])
def test_an_export_to_a_full_disk_is_refused_in_one_line(tmp_path, name):
    ended = on_a_full_disk("export", RUN, tmp_path / name)
    assert ended.returncode == 2, ended.stderr
    assert "the disk is full" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", ["line", "localvol"])
def test_a_demo_leaves_no_half_written_table(tmp_path, example):
    ended = on_a_full_disk("demo", example, "-o", tmp_path / "demo")
    assert ended.returncode == 2, ended.stderr
    assert "demo/" in ended.stderr
    assert "the disk is full" in ended.stderr
    assert list((tmp_path / "demo").iterdir()) == []
