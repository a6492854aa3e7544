"""One name, one thing: what a stranger looks for is defined once."""

import ast
from collections import defaultdict
from pathlib import Path

import seqgp

SOURCE = Path(seqgp.__file__).parent
OF_THEIR_OWN = {"cli", "plots", "report"}  # commands and figures are called after what they show


def definitions(kinds, rooms) -> dict[str, list[str]]:
    """The public classes or functions of some rooms, each with the files that define it."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE)
        if not rooms(where.parts[0]):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, kinds) and not node.name.startswith("_"):
                found[node.name].append(str(where))
    return found


def test_a_class_is_defined_once():
    twice = {name: where for name, where in definitions(ast.ClassDef, lambda room: True).items() if len(where) > 1}
    assert not twice


def test_a_function_of_the_library_is_defined_once():
    found = definitions(ast.FunctionDef, lambda room: room not in OF_THEIR_OWN | {"apps"})
    assert not {name: where for name, where in found.items() if len(where) > 1}
