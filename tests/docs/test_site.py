"""The documentation as a site: pages made from the source are current, and it builds without a warning."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import seqgp

ROOT = Path(__file__).parents[2]


def build_module():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_keys_of_a_configuration_are_current():
    made = build_module().configuration()
    assert (ROOT / "docs" / "configuration.md").read_text() == made, "run: python docs/build.py"
    for key in ("covariates", "lengthscale", "nodes", "keep", "streams", "files"):
        assert f"| `{key}` |" in made


def test_every_public_name_is_in_the_reference():
    made = build_module().api().split()
    assert {line.rsplit(".", 1)[1] for line in made if line.startswith("seqgp.")} == set(seqgp.__all__)


def test_the_site_builds_and_no_link_is_broken(tmp_path):
    """Strict: a link to nowhere, or a name without a docstring page, is an error."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs" / "api.md").write_text(build_module().api())
    (tmp_path / "src").symlink_to(ROOT / "src")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "build" / "site" / "api.html").read_text()
    assert "SequentialSampler" in page
