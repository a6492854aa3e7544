"""The direction of the imports between the rooms, read off the source."""

import ast
from pathlib import Path

import pytest

import seqgp

SOURCE = Path(seqgp.__file__).parent

BELOW = [  # each room may import those before it
    (
        "models",
        "linalg",
        "runtime",
    ),
    ("samplers",),
    ("latents",),
    ("mcmc",),
    ("target",),
    (
        "chains",
        "filtering",
    ),
    (
        "sequential",
        "online",
    ),
    ("full",),
    ("reference",),
    ("evaluate",),
    ("io",),
]
ALLOWED = {room: set().union(*BELOW[:i]) for i, rooms in enumerate(BELOW) for room in rooms}


def imported(path: Path) -> set[str]:
    """The rooms that a file imports, ``seqgp`` itself as the empty name; only for typing does not count."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    ours = [name.split(".") for name in names if name.split(".")[0] == "seqgp"]
    return {parts[1] if len(parts) > 1 else "" for parts in ours}


def files(room: str) -> list[Path]:
    return sorted((SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_down(room):
    for path in files(room):
        above = imported(path) - ALLOWED[room] - {room}
        assert not above, f"{path.relative_to(SOURCE)} imports {above}"


def test_applications_use_the_public_names_only():
    rooms = set(ALLOWED)
    for path in files("apps"):
        inner = imported(path) & rooms
        assert not inner, f"{path.relative_to(SOURCE)} imports {inner}"


def test_the_package_is_nothing_but_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        dunder = isinstance(node, ast.Assign) and all(ast.unparse(t).startswith("__") for t in node.targets)
        assert docstring or dunder or isinstance(node, (ast.Import, ast.ImportFrom)), ast.unparse(node)
