"""Ctrl-C before a command has begun: at most one line, and no traceback."""

import os
import subprocess
import sys

import pytest

INTERRUPTS = """\
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["typer", "seqgp.cli.application", "seqgp.cli.fitting", "jax", "pandas"])
def test_an_interrupt_while_modules_are_imported(tmp_path, module):
    """A signal at the very moment that a module is looked for."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "seqgp.cli", "fit", tmp_path / "none.toml"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "INTERRUPT_AT": module},
        check=False,
    )
    assert done.returncode == 130
    assert len(done.stderr.splitlines()) <= 1
    assert "Traceback" not in done.stderr
