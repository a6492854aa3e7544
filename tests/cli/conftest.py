"""The command line in this process: exit code, what it said, and tables to give it."""

import pytest

from cli_tables import CONFIG, rows
from seqgp.cli import main


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
