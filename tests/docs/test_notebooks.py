"""Tutorials as notebooks: the code of the page, cell by cell, and links that lead somewhere from where they lie."""

import re
from pathlib import Path

import pytest
from docs.examples import blocks
from docs.notebooks import DOCS, TUTORIALS, execute, notebook_of


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_examples_of_its_page(name):
    notebook = notebook_of(DOCS / f"{name}.md")
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    examples = [block.text.strip() for block in blocks(DOCS / f"{name}.md") if block.language == "python"]
    shown = [text.replace('matplotlib.use("agg")', "%matplotlib inline") for text in examples]
    assert [cell for cell in cells if not cell.startswith("%%")] == shown


@pytest.mark.parametrize("name", TUTORIALS)
def test_links_of_a_notebook_lead_to_pages_of_the_site(name):
    text = "".join(cell.source for cell in notebook_of(DOCS / f"{name}.md").cells if cell.cell_type == "markdown")
    assert not re.search(r"\]\(\w+\.md", text)
    for page in re.findall(r"\]\(\.\./(\w+)\.html", text):
        assert (DOCS / f"{page}.md").exists() or page in ("api", "configuration"), page


def test_a_notebook_runs_commands_and_writes_the_files_of_its_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```toml\n# file: my.toml\nkey = 1\n```\n\n```bash\nseqgp --version > version.txt\n```\n\n"
        "```python\nprint(open('my.toml').read())\n```\n"
    )
    notebook = notebook_of(page)
    execute(notebook, tmp_path)
    assert "key = 1" in notebook.cells[-1].outputs[0].text
    assert "seqgp" in (tmp_path / "version.txt").read_text()


def test_an_example_that_fails_ends_the_build(tmp_path):
    page = Path(tmp_path / "page.md")
    page.write_text("```python\nraise ValueError('broken')\n```\n")
    with pytest.raises(Exception, match="broken"):
        execute(notebook_of(page), tmp_path)
