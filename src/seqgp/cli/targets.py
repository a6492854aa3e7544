"""The file that a command is asked to write."""

from __future__ import annotations

from pathlib import Path

from seqgp.cli.common import Mistake, check_target


def check_output(output: Path, endings: tuple[str, ...], force: bool) -> None:
    """Raise unless the file's name ends as expected, and it may be written."""
    if output.suffix not in endings:
        expected = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise Mistake(f"{output}: the name ends in {output.suffix!r}; expected {expected}")
    check_target(output, force)
