"""The page on the room of filters names each of its files, and functions with the arguments they have."""

import ast
import re
from pathlib import Path

import seqgp

ROOM = Path(seqgp.__file__).parent / "statespace"
PAGE = (ROOM / "README.md").read_text()


def functions() -> dict[str, list[str]]:
    """Functions of the room with their arguments, and classes with their fields."""
    found = {}
    for path in ROOM.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = [one.arg for one in node.args.args + node.args.kwonlyargs]
            elif isinstance(node, ast.ClassDef):
                found[node.name] = [ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)]
    return found


def test_each_file_has_a_line():
    named = set(re.findall(r"`(\w+)\.py`", PAGE))
    assert named == {path.stem for path in ROOM.glob("*.py")} - {"__init__"}


def test_signatures_are_those_of_the_code():
    known = functions()
    for name, arguments in re.findall(r"`(\w+)\(([^`)]*)\)`", PAGE):
        if name == "matrices":  # of the protocol, whose first argument is self
            continue
        given = [one.split("=")[0].strip() for one in arguments.split(",") if one.strip() != "…"]
        assert given == [one for one in known[name] if one in given], name
