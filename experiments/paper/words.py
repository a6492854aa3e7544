"""What the sections of the page share."""

from __future__ import annotations

from typing import Any


def not_run(title: str, command: str, elsewhere: str = "") -> str:
    """What stands in for a part; ``elsewhere`` is a page that has the same experiment."""
    text = f"## {title}\n\nThis part has not been run: `python -m experiments.paper --only {command}`."
    if elsewhere:
        text += f" {elsewhere} has a run of the same experiment by itself, with its tables."
    return text + "\n"


def heading(title: str, parts: str) -> str:
    return f"## {title}\n\n```bash\npython -m experiments.paper --only {parts}\n```\n\n"


def pm(pair: Any) -> str:
    return f"{pair[0]:.2f} ± {pair[1]:.2f}"
