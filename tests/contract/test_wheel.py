"""The wheel in an environment that holds nothing but what it asks for: it works there, and names what is missing.

Packages are linked from this environment, not downloaded; ``make wheel`` installs it with pip instead.
"""

import importlib.metadata as metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"[A-Za-z0-9._-]+")
EXTRAS = {"io", "cli", "plots", "localvol", "fleet", "sktime", "docs", "all", "dev"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (path,) = folder.glob("*.whl")
    return path


def _needed(distribution: str, found: set[str]) -> set[str]:
    """A distribution and everything that it needs, extras aside."""
    name = re.sub(r"[-_.]+", "-", distribution).lower()
    if name not in found:
        found.add(name)
        for requirement in metadata.requires(name) or []:
            marker = requirement.partition(";")[2]
            if "extra" not in marker and "sys_platform == 'win32'" not in marker.replace('"', "'"):
                try:
                    _needed(NAME.match(requirement).group(), found)
                except metadata.PackageNotFoundError:
                    assert marker, requirement  # for another system or Python
                    found.discard(NAME.match(requirement).group().lower())
    return found


def _link(distribution: str, site: Path) -> None:
    for file in metadata.files(distribution) or []:
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not (site / top).exists():
            (site / top).symlink_to(Path(str(metadata.distribution(distribution).locate_file(top))))


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel and the core's dependencies alone."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found: set[str] = set()
    for requirement in core:
        _needed(NAME.match(requirement).group(), found)
    for distribution in found:
        _link(distribution, site)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return home / "bin" / "python"


def _run(python, code, folder):
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": os.environ["XLA_FLAGS"], "SEQGP_CACHE": "off"}
    command = [str(python), "-W", "error::ImportWarning", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_it_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = [name for name in names if name.endswith("METADATA")]
        described = archive.read(about).decode()
    assert "seqgp/__init__.pyi" in names  # read by the package itself
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"seqgp"}
    assert not [name for name in names if name.endswith((".pyc", ".toml", ".md"))]
    assert set(re.findall(r"^Provides-Extra: (.*)$", described, re.MULTILINE)) == EXTRAS


SAMPLE = """
import sys, jax, numpy as np, seqgp
assert "site-packages" in seqgp.__file__, seqgp.__file__
seqgp.enable_x64()
from seqgp import kernels
kernel = seqgp.Separable(kernels.Matern12(1.0), kernels.Matern32(0.5), scale=seqgp.ScaledSigmoid(0, 2))
model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(noise=0.3))
x = np.linspace(0, 1, 4)[:, None]
data = [seqgp.Snapshot(t, x, np.sin(x[:, 0] + t)) for t in (0.0, 1.0)]
run = seqgp.run(seqgp.SequentialSampler(model, draws=20), data, key=jax.random.key(0), store="run")
prediction = seqgp.predict(jax.random.key(1), model, run.state, x)
print(len(seqgp.Store("run")), prediction.f.shape, prediction.crps(data[1].y) > 0)
assert not {"pandas", "xarray", "plotly", "matplotlib", "typer"} & set(sys.modules)
"""


def test_the_core_samples_stores_and_predicts(bare, tmp_path):
    ended = _run(bare, SAMPLE, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("2 (20, 4)")


@pytest.mark.parametrize(
    "code, package, extra",
    [
        ("import seqgp; seqgp.to_datatree", "xarray", "io"),
        ("from seqgp.io.tables import snapshots_from", "pandas", "io"),
        ("from seqgp.apps.localvol import Quotes", "pandas", "localvol"),
        ("from seqgp import plots", "plotly", "plots"),
        ("from seqgp.report import report", "plotly", "plots"),
        ("from seqgp.evaluate.uniformity import plot_ranks; plot_ranks({})", "arviz_base", "plots"),
        ("from seqgp.fleets.cluster import Cluster; Cluster(None, None, None)", "distributed", "fleet"),
        ("from seqgp.cli import main; main(['--help'])", "typer", "cli"),
    ],
)
def test_what_is_missing_is_named_with_its_extra(code, package, extra, bare, tmp_path):
    ended = _run(bare, code, tmp_path)
    assert ended.returncode == (2 if extra == "cli" else 1)
    said = f"{package} is not installed; it comes with seqgp[{extra}]: pip install 'seqgp[{extra}]'"
    assert ended.stderr.strip().endswith(said)
