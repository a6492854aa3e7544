"""The title of a run: as its configuration says it now, for it is no part of the model."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from seqgp.io.files import open_regular
from seqgp.io.store import Store

SOURCE = "toml"  # in what a run remembers as its configuration: the file, as seen from the run's folder
LARGEST = 2**20  # bytes of a configuration that is looked at


def with_source(configuration: dict[str, Any], file: Path) -> dict[str, Any]:
    """A configuration to remember, with the file that it is from."""
    folder = Path(configuration["run"]["folder"]).resolve()
    return configuration | {SOURCE: os.path.relpath(file.resolve(), folder)}


def title_of(store: Store) -> str | None:
    """The title in the file that the run was configured by; where that is gone, or of another run, as it was."""
    remembered = store.manifest.section("run").get("title")
    source = (store.manifest.configuration or {}).get(SOURCE)
    if not isinstance(source, str):
        return remembered
    file = store.path.resolve() / source
    try:
        with open_regular(file, follow=True) as opened:
            section = tomllib.loads(opened.read(LARGEST).decode("utf-8-sig"))["run"]
        if (file.parent / section["folder"]).resolve() != store.path.resolve():
            return remembered
        title = section.get("title")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # gone, or being written
        return remembered
    return title if title is None or isinstance(title, str) else remembered
