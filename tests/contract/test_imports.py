"""The direction of the imports between the rooms, read off the source."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import seqgp

SOURCE = Path(seqgp.__file__).parent

BELOW = [  # each room (or module of the package) may import those before it
    ("base",),
    ("linalg", "runtime"),
    ("kernels", "likelihoods", "means"),
    ("model",),
    ("fields",),
    ("statespace",),
    ("mcmc",),
    ("monitoring",),
    ("samplers",),
    ("reference",),
    ("evaluate",),
    ("io",),
    ("fleets",),
    ("plots",),
    ("report",),
    ("cli",),
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
    single = SOURCE / f"{room}.py"
    return [single] if single.exists() else sorted((SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_down(room):
    for path in files(room):
        above = imported(path) - ALLOWED[room] - {room}
        if room == "cli":  # a command runs whatever there is, applications and the demo's public names included
            above -= {"", "apps"}
        assert not above, f"{path.relative_to(SOURCE)} imports {above}"


def test_applications_use_the_public_names_only():
    rooms = set(ALLOWED) - {"base", "kernels", "likelihoods", "means"}  # errors, and public homes of names
    for path in files("apps") + files("adapters"):
        inner = imported(path) & rooms
        assert not inner, f"{path.relative_to(SOURCE)} imports {inner}"


def test_the_package_is_nothing_but_names():
    """The stub declares names of the rooms, each under its own; the package itself only loads them."""
    for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        version = isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "__version__"
        name = isinstance(node, ast.ImportFrom) and node.level == 1 and all(a.asname == a.name for a in node.names)
        assert docstring or version or name, ast.unparse(node)
    allowed = {"_MOVED", "__version__"}
    for node in ast.parse((SOURCE / "__init__.py").read_text()).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        loader = ast.unparse(node).endswith("= lazy_loader.attach_stub(__name__, __file__)")
        constant = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in allowed
        answer = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
        assert docstring or loader or constant or answer or isinstance(node, ast.Import), ast.unparse(node)


def test_a_name_that_moved_says_where_it_is_now():
    for name, home in {
        "Poisson": "likelihoods.Poisson",
        "Product": "kernels.PerColumn",
        "Linear": "means.Linear",
    }.items():
        with pytest.raises(AttributeError, match=rf"seqgp\.{name} is now seqgp\.{home}"):
            getattr(seqgp, name)
    for old, new in seqgp._MOVED.items():
        module, _, name = f"seqgp.{new}".rpartition(".")
        assert hasattr(importlib.import_module(module), name), old


def test_every_public_name_is_there():
    for name in seqgp.__all__:
        assert getattr(seqgp, name) is not None


HEAVY = {"pandas", "pyarrow", "zarr", "xarray", "h5py", "matplotlib", "plotly", "scipy.stats", "arviz_base"}
BARE = HEAVY | {"jax", "jaxlib", "numpy", "numpyro", "equinox", "scipy", "rich", "pydantic"}
COSTS = [  # what is done, and what must not have been imported for it
    ("import seqgp", BARE | {"typer"}),
    (
        "import seqgp, jax; seqgp.enable_x64(); seqgp.cache(); seqgp.Model, seqgp.likelihoods.Gaussian, seqgp.Snapshot",
        HEAVY,
    ),
    (
        "import seqgp; seqgp.SequentialSampler, seqgp.FullSampler, seqgp.run, seqgp.predict, seqgp.Run",
        HEAVY | {"pydantic", "rich", "scipy.optimize"},
    ),
    ("import seqgp.cli.fitting", {"scipy.stats", "scipy.optimize", "matplotlib", "plotly", "zarr", "xarray"}),
    ("from seqgp.cli import main; main(['--version'])", BARE),
    ("from seqgp.cli import main; main(['--help'])", BARE - {"rich"}),
]


@pytest.mark.parametrize("done, unwanted", COSTS, ids=[done for done, _ in COSTS])
def test_nothing_is_imported_that_is_not_needed(done, unwanted, tmp_path):
    code = f"import sys\ntry:\n    {done}\nexcept SystemExit:\n    pass\nprint(*sys.modules, sep='\\n')"
    matrices = os.environ | {"SEQGP_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=matrices)
    assert ended.returncode == 0, ended.stderr
    imported_modules = set(ended.stdout.splitlines())
    assert "seqgp" in imported_modules
    assert not unwanted & imported_modules
