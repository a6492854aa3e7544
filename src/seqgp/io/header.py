"""What the header of a step must hold, whatever it is of."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from seqgp.io.late_data import PART as LATE
from seqgp.io.late_data import is_late_part
from seqgp.io.manifest import FORMAT

PARTS = {"run", "step", "t", "labels", "data", "state", "info", "snapshot", "summary"}  # of a header


class Previous(NamedTuple):
    """What a step says of the one before it, should that be lost."""

    t: float
    data: str


def wrong_header(header: dict[str, Any]) -> str:
    """What is wrong with the header of a step, in words; empty where nothing is."""
    if not set(header) >= PARTS:
        return f"lacks {', '.join(sorted(PARTS - set(header)))}"
    labels = header["labels"]
    right = {
        "t": _is_number(header["t"]) and math.isfinite(header["t"]),
        "labels": labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels)),
        "data": isinstance(header["data"], str),
        "format": isinstance(header.get("format", FORMAT), int),
        "previous": _is_previous(header.get("previous")),
        LATE: is_late_part(header.get(LATE)),
    } | {part: isinstance(header[part], dict) for part in ("info", "snapshot", "summary")}
    wrong = [name for name, fine in right.items() if not fine]
    return f"holds no {' and no '.join(wrong)}" if wrong else ""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_previous(value: object) -> bool:
    if value is None:
        return True
    kinds = isinstance(value, dict) and {"t": _is_number(value.get("t")), "data": isinstance(value.get("data"), str)}
    return bool(kinds) and all(kinds.values())
