"""What a report of a wrong posterior needs: versions, the identity of the model, the last info, a few rows of data."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import jax
import numpy as np

from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.io.run import Run
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.validation import model_digest

NAME = re.compile(r"[\w.-]+")  # of a package, at the beginning of a requirement
ROWS = 10  # of the last snapshot, by default


def versions() -> dict[str, str | None]:
    """The version of Python, of seqgp and of every package that it may use; None where one is not installed."""
    names = {match.group() for line in requires("seqgp") or () if (match := NAME.match(line))}
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in ["seqgp", "jaxlib", *sorted(names - {"seqgp"})]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def machine() -> dict[str, Any]:
    """What numbers may depend on: platform, devices, precision, flags of XLA."""
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "devices": [str(device) for device in jax.devices()],
        "x64": bool(jax.config.read("jax_enable_x64")),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
    }


def collect(run: Run | Store | None = None, rows: int = ROWS) -> dict[str, Any]:
    """Everything about this installation and, if there is one, a run: plain values, for JSON.

    Args:
        run: a run, or the store of one.
        rows: how many rows of the last snapshot to include; 0 for none, where data must not leave the house.
    """
    found: dict[str, Any] = {"versions": versions(), "machine": machine()}
    if run is None:
        return found
    if isinstance(run, Store):
        step, manifest = run.latest(), run.manifest
        found["configuration"] = {key: value for key, value in (manifest.configuration or {}).items() if key != "data"}
        found["sampler"] = manifest.sampler
        model = manifest.build_model()
        found["model"] = manifest.model if model is None else _model(model)
        return found | _step(step.state, step.info, step.snapshot, rows)
    found["model"] = _model(run.model)
    return found | _step(run.state, run.infos[-1], run.snapshot, rows)


def _model(model: Model) -> dict[str, Any]:
    return {"digest": model_digest(model), **model.fingerprint()}


def _step(state: State, info: Info, snapshot: Snapshot, rows: int) -> dict[str, Any]:
    """The last step: what was seen, and what came out."""
    posterior = {
        name: {"mean": np.mean(values, axis=0).tolist(), "sd": np.std(values, axis=0).tolist()}
        for name, values in state.parameters.items()
    }
    seen: dict[str, Any] = {"t": float(snapshot.t), "rows": len(snapshot.x), "missing": int(np.isnan(snapshot.y).sum())}
    if rows:
        seen |= {"x": np.asarray(snapshot.x)[:rows].tolist(), "y": np.asarray(snapshot.y)[:rows].tolist()}
    found = {"step": info.step, "health": info.health, "settings": info.settings, "warnings": list(info.warnings)}
    found |= {name: getattr(info, name) for name in ("ess", "log_evidence", "log_evidence_se") if hasattr(info, name)}
    return {"info": found, "posterior": posterior, "snapshot": seen}
