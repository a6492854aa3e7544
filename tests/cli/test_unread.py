"""Commands into a pipe that nobody reads: they end as other tools do, without a word."""

import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = 128 + 13  # what a shell says of a process that SIGPIPE has ended


def _into_a_closed_pipe(*arguments, both=False):
    """Exit code and what was said beside it, of a command whose reader is gone before the first line."""
    command = [sys.executable, "-m", "seqgp.cli", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT if both else subprocess.PIPE}
    with subprocess.Popen(command, **streams) as process:
        assert process.stdout is not None
        process.stdout.close()
        said = b"" if process.stderr is None else process.stderr.read()
        return process.wait(), said


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["summary", "--help"]])
def test_what_the_parser_says(arguments):
    assert _into_a_closed_pipe(*arguments) == (CLOSED, b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_a_command_says(finished, options):
    assert _into_a_closed_pipe("summary", finished / "run", *options) == (CLOSED, b"")


def test_an_error_that_nobody_reads(tmp_path):
    assert _into_a_closed_pipe("summary", tmp_path, both=True)[0] == CLOSED


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "seqgp.cli", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["seqgp: standard output: [Errno 28] No space left on device"]
