"""The examples of a page: its blocks in order, in one namespace, in a folder that was empty."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from seqgp.cli import main

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
IMAGE = re.compile(r"!\[[^\]]*\]\(([\w.]+)\)")


class Block(NamedTuple):
    """A block of a page."""

    language: str
    text: str
    line: int

    def commands(self) -> list[list[str]]:
        """The seqgp commands of a block; others (make, systemctl) are not for a test."""
        lines = self.text.splitlines() if self.language == "bash" else []
        return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("seqgp ")]

    def run(self, namespace: dict[str, Any], where: str) -> None:
        """Execute it, or write the file that it is."""
        if self.language == "python":
            exec(compile("\n" * self.line + self.text, where, "exec"), namespace)
        elif self.language == "toml" and (name := FILE.match(self.text)):
            Path(name.group(1)).write_text(self.text)
        for command in self.commands():
            try:
                main(command)
            except SystemExit as ended:
                if ended.code != 0:
                    raise RuntimeError(f"{where}, line {self.line}: seqgp {shlex.join(command)}") from ended


def blocks(page: Path) -> list[Block]:
    """Every block of a page."""
    text = page.read_text()
    return [Block(m.group(1), m.group(2), text[: m.start()].count("\n") + 1) for m in BLOCK.finditer(text)]


def shown(page: Path) -> list[str]:
    """The images beside a page that it shows."""
    return IMAGE.findall(page.read_text())


@contextlib.contextmanager
def run_page(page: Path) -> Iterator[Path]:
    """All blocks of a page run; the folder that they ran in."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        namespace = {"__name__": "__docs__"}
        for block in blocks(page):
            block.run(namespace, os.path.basename(page))
        yield Path(folder)
