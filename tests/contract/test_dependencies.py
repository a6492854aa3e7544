"""The conda recipe asks for what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_conda_recipe_has_the_bounds_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {entry.replace(" ", "") for entry in project["dependencies"]}
    wanted.add(f"python{project['requires-python']}")
    recipe = (ROOT / "conda/meta.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\ntest:")[0]
    assert {re.sub(r"^\s*-|\s", "", line) for line in run.splitlines() if line.strip()} == wanted
    assert f'version = "{project["version"]}"' in recipe
