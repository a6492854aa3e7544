"""Scripts of the peers, run by the Python of their own environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEERS = ROOT / "build" / "peers" / "bin" / "python"


def peer(python: Path, script: str, data: Path) -> dict[str, Any]:
    """What a script prints; an error is kept, and the others go on."""
    ended = subprocess.run([python, HERE / f"{script}.py", data], capture_output=True, text=True, check=False)
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        return {"error": (ended.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(lines[-1])
