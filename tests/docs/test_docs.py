"""Every example of the documentation runs: a page's blocks in order, in one namespace, in an empty folder."""

import os
import re
import shlex
from pathlib import Path

import jax
import pytest

from seqgp.cli import main
from seqgp.runtime import engine

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")


def blocks(page):
    """Language, text and line of every block."""
    text = page.read_text()
    return [(m.group(1), m.group(2), text[: m.start()].count("\n") + 1) for m in BLOCK.finditer(text)]


def commands(text):
    """The seqgp commands of a block; others (make, systemctl) are not for tests."""
    return [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("seqgp ")]


def run_block(language, text, namespace, where):
    if language == "python":
        exec(compile(text, where, "exec"), namespace)
    elif language == "toml" and (name := FILE.match(text)):
        Path(name.group(1)).write_text(text)
    elif language == "bash":
        for command in commands(text):
            with pytest.raises(SystemExit) as ended:
                main(command)
            assert ended.value.code == 0, f"{where}: seqgp {shlex.join(command)}"


@pytest.fixture(autouse=True)
def nothing_compiled_is_left_of_a_page():
    """The examples of all pages together compile more than two gigabytes."""
    yield
    engine.forget()
    jax.clear_caches()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    found = blocks(page)
    if not any(language == "python" or commands(text) for language, text, _ in found):
        pytest.skip("no example on this page")
    monkeypatch.chdir(tmp_path)
    if page.name != "README.md":  # where draws are few, compilation is most of the time
        jax.config.update("jax_disable_most_optimizations", True)
    namespace = {"__name__": "__docs__"}
    try:
        for language, text, line in found:
            run_block(language, text, namespace, f"{os.path.relpath(page, ROOT)}:{line}")
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
