"""Every example of the documentation runs, and makes the figures that its page shows."""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import pytest
from docs.examples import blocks, run_page, shown

from seqgp.runtime import engine

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MADE_OF_TABLES = "accuracy_"


@pytest.fixture(autouse=True)
def nothing_is_left_of_a_page():
    """The examples of all pages together compile more than two gigabytes."""
    yield
    engine.forget()
    jax.clear_caches()
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page):
    if not any(block.language == "python" or block.commands() for block in blocks(page)):
        pytest.skip("no example on this page")
    with run_page(page) as folder:
        for name in shown(page):
            there = (page.parent / name).exists() or (folder / name).exists()
            assert there or name.startswith(MADE_OF_TABLES), name
