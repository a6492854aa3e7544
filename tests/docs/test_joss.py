"""The paper about the library: its references, figures and numbers are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "paper" / "paper.md").read_text()


def test_every_citation_is_in_the_bibliography_and_every_entry_is_cited():
    cited = set(re.findall(r"@([a-z]+\d*\w*)", TEXT.split("---", 2)[2]))
    entries = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.MULTILINE))
    assert cited == entries


def test_it_is_as_long_as_the_journal_asks():
    assert 750 <= len(TEXT.split("---", 2)[2].split()) <= 1750


def test_figures_exist_and_numbers_are_those_of_the_documentation():
    for image in re.findall(r"\]\((\.\./[\w./]+\.png)\)", TEXT):
        assert (ROOT / "paper" / image).resolve().exists(), image
    accuracy, performance = ((ROOT / "docs" / name).read_text() for name in ("online_accuracy.md", "performance.md"))
    assert "95% of all cases: at most 0.15 sd | 0.046 | met" in accuracy  # "within 0.05 … in 95% of all cases"
    assert "NUTS refitted at t = 10, 20, …, 50, N=20, over ours, per effective draw | 81.5" in performance
    assert "took 81 times" in TEXT
