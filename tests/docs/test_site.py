"""The documentation as a site: pages made from the source are current, and it builds without a warning."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from docs.examples import blocks

import seqgp
from docs import build

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", build.CHECKED_IN)
def test_the_tables_of_a_page_are_current(name):
    assert (ROOT / "docs" / name).read_text() == build.PAGES[name](), "run: make docs"


def test_the_keys_of_a_configuration_are_there():
    made = build.configuration()
    for key in ("covariates", "lengthscale", "nodes", "keep", "streams", "files"):
        assert f"| `{key}` |" in made


def test_every_public_name_is_in_the_reference_with_an_example():
    parts = {"kernels": seqgp.kernels, "likelihoods": seqgp.likelihoods, "means": seqgp.means}
    public = (set(seqgp.__all__) - set(parts)).union(*(part.__all__ for part in parts.values()))
    shown = re.findall(r"^::: seqgp\..*\.(\w+)$", build.api(), re.MULTILINE)
    assert public <= set(shown)
    assert len(shown) == len(set(shown))
    examples = "\n".join(block.text for block in blocks(ROOT / "docs" / "api.md") if block.language == "python")
    assert public <= set(re.findall(r"\w+", examples))


def test_the_site_builds_and_no_link_is_broken(tmp_path):
    """Strict: a link to nowhere, or a name without a docstring page, is an error.

    Figures that examples make are left empty here: the test of each page holds that it makes them.
    """
    build.assemble(tmp_path / "build" / "docs")
    for missing in build.lacking(tmp_path / "build" / "docs").values():
        for path in missing:
            plt.imsave(path, [[0.0]])
    (tmp_path / "src").symlink_to(ROOT / "src")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "build" / "site" / "api.html").read_text()
    assert "SequentialSampler" in page
