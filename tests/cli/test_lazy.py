"""The table of commands says of each what it says of itself."""

import importlib
import inspect

import pytest
import typer

from seqgp.cli.lazy import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_first_lines(name):
    module, first = COMMANDS[name]
    found = getattr(importlib.import_module(f"seqgp.cli.{module}"), name)
    said = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert (said or "").splitlines()[0] == first


def test_a_slip_is_answered_with_the_nearest_name(seqgp_):
    code, _, err = seqgp_("fitt")
    assert code == 2
    assert "Did you mean 'fit'?" in err
