"""Tutorials as notebooks: ``python -m docs.notebooks`` executes them in build/docs/notebooks.

The pages are the source. Their text becomes Markdown cells, examples in Python become code cells, configurations become
cells that write the file, and commands become shell cells.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
FOLDER = DOCS.parent / "build" / "docs" / "notebooks"
TUTORIALS = ("stations", "networks", "local_volatility", "inverse_problem", "black_box", "howto_notebook")
MINUTES_A_CELL = 20
WRITTEN_FILE = re.compile(r"^```toml\n# file: (\S+)\n", re.MULTILINE)
BESIDE = re.compile(r"(?<!!)\]\((\w+)\.md(#[\w-]+)?\)")  # a link to another page
FOLDED = re.compile(r"^</?details[^>]*>\n|^<summary>.*</summary>\n", re.MULTILINE)
FIGURE = re.compile(r"^!\[[^\]]*\]\([\w.]+\)\n", re.MULTILINE)  # the notebook draws its figures itself


def notebook_of(page: Path) -> nbformat.NotebookNode:
    """The notebook of a page, not executed."""
    text = WRITTEN_FILE.sub(r"```python\n%%writefile \1\n", page.read_text())
    text = BESIDE.sub(r"](../\1.html\2)", text)
    notebook = jupytext.reads(FOLDED.sub("", FIGURE.sub("", text)), "md")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = cell.source.replace('matplotlib.use("agg")', "%matplotlib inline")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def place(pages: Path) -> None:
    """Write all notebooks, not executed, into a folder below the pages, and link each page to its own."""
    (pages / "notebooks").mkdir()
    for name in TUTORIALS:
        nbformat.write(notebook_of(DOCS / f"{name}.md"), pages / "notebooks" / f"{name}.ipynb")
        page = pages / f"{name}.md"
        title, text = page.read_text().split("\n", 1)
        page.write_text(f"{title}\n\n[This page as a notebook](notebooks/{name}.ipynb)\n{text}")


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells in a folder, with the seqgp command on the path; an example that fails ends the build."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    NotebookClient(notebook, timeout=60 * MINUTES_A_CELL, resources={"metadata": {"path": str(folder)}}).execute()


def main() -> None:
    """Execute all notebooks that :func:`place` wrote for the site."""
    for name in TUTORIALS:
        print(f"{name}.ipynb", flush=True)
        notebook = notebook_of(DOCS / f"{name}.md")
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, Path(folder))
        nbformat.write(notebook, FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
