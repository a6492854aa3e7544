"""The command line in this process: exit code, what it said, and tables to give it."""

import json
import shutil

import pytest

import seqgp
from cli_tables import CONFIG, rows
from seqgp.cli import main
from seqgp.cli.fitting import Continued
from seqgp.cli.watching import _Watch
from seqgp.io.inbox import Inbox


@pytest.fixture
def seqgp_(capsys):
    """Run a command: its exit code, standard output and standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder with a configuration, a table and a run of three steps."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "config.toml").write_text(CONFIG)
    (folder / "table.csv").write_text(rows([0, 1, 2]))
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "config.toml")])
    assert ended.value.code == 0
    return folder


@pytest.fixture
def watched(finished, tmp_path):
    """A run of three steps that a test may write to."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "run"


@pytest.fixture
def inbox(tmp_path):
    """A folder where tables arrive."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def watching(capsys):
    """Begin to watch a folder: a function that takes some looks, and returns what was said."""

    def begin(run, inbox):
        watch = _Watch(Continued.of(seqgp.Store(run)), Inbox(inbox), True)

        def looks(times=2, pause=0.0):
            for _ in range(times):
                watch.look(pause)
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        return looks

    return begin


@pytest.fixture
def look(watched, inbox, watching):
    """Some looks at the inbox, and what was said."""
    return watching(watched, inbox)
