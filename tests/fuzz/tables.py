"""A case as a table, as a configuration for the command line, and in other units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import api
from .cases import Case, Ran
from .values import is_slot, wide_slots


def frame_of(case: Case) -> pd.DataFrame:
    """All rows, with the columns ``t``, ``x0``, …, ``y`` and those of the context."""
    parts = []
    for t, x, y, context in case.snapshots:
        inputs = {f"x{d}": x[:, d] for d in range(x.shape[1])}
        parts.append(pd.DataFrame({"t": t, **inputs, "y": y, **context}))
    return pd.concat(parts, ignore_index=True)


def round_trip(case: Case, path: Path) -> list[Any]:
    """Written to a file and read again."""
    frame = frame_of(case)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    inputs = [name for name in frame if str(name).startswith("x")]
    return api.read_snapshots(path, inputs, list(case.snapshots[0][3]))


def rescaled(case: Case, c: float, d: float, v: float = 1.0) -> Case:
    """Time in units ``1/c``, space in units ``1/d`` and values in units ``1/v`` of those before."""

    def times(value, factor):
        return (value[0], *(one * factor for one in value[1:])) if is_slot(value) else value * factor

    def kernel(one, factor):
        found = dict(one)
        for name in ("lengthscale", "period", "width"):
            if name in one and not (name == "lengthscale" and one["kind"] == "Periodic"):
                given = one[name]
                found[name] = [times(v, factor) for v in given] if isinstance(given, list) else times(given, factor)
        if one["kind"] == "LinearKernel":
            found |= {"scale": times(one["scale"], 1 / factor), "centre": [v * factor for v in one["centre"]]}
        if "parts" in one:
            found["parts"] = [kernel(part, factor) for part in one["parts"]]
        if one.get("kernel"):
            found["kernel"] = kernel(one["kernel"], factor)
        return found

    def seasonal(one):
        season = one.get("season")
        return one if season is None else {**one, "season": {**season, "period": season["period"] * c}}

    terms = [
        seasonal(
            {
                **term,
                "time": kernel(term["time"], c),
                "space": kernel(term["space"], d),
                "scale": times(term["scale"], v),
            }
        )
        for term in case.model["terms"]
    ]
    mean = {"intercept": times(case.model["mean"]["intercept"], v), "features": []}
    for feature in case.model["mean"]["features"]:
        factor = v / d if feature.get("column") is not None else v
        cycle = {"period": feature["period"] * c} if feature.get("period") else {}
        mean["features"].append({**feature, **cycle, "weight": times(feature["weight"], factor)})
    likelihood = seasonal(dict(case.model["likelihood"]))
    if "noise" in likelihood:
        likelihood["noise"] = times(likelihood["noise"], v)
    in_units = {"limit", "error"} if likelihood.get("combine") == "squares" else {"limit"}
    if likelihood.get("trend") is not None:
        likelihood["trend"] = times(likelihood["trend"], 1 / c)
    model = {"terms": terms, "mean": mean, "likelihood": likelihood}
    if "slowness" in case.model:
        model["slowness"] = [times(one, c / d) for one in case.model["slowness"]]
    snapshots = [
        (t * c, x * d, y * v, {n: one * v if n in in_units else one for n, one in context.items()})
        for t, x, y, context in case.snapshots
    ]
    questions = [q._replace(t=q.t * c, x=q.x * d) for q in case.questions]
    past = None if case.past is None else case.past._replace(t=case.past.t * c, x=case.past.x * d)
    smooth = [t * c for t in case.smooth]
    return case._replace(model=model, snapshots=snapshots, questions=questions, smooth=smooth, past=past)


def can_be_configured(case: Case) -> bool:
    """Whether the command line can be given the case."""
    kinds = str(case.model)
    return (
        "Absolute" not in kinds and "first_column" not in kinds and case.shape.pattern not in ("coincide", "moving")
        and len(case.model["terms"]) == 1 and not wide_slots(case.model) and not case.shape.delayed
    )  # fmt: skip


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items() if one is not None) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    if is_slot(value):
        if value[0] == "normal":
            return f'{{ distribution = "Normal", loc = {float(value[1])!r}, scale = {float(value[2])!r} }}'
        if value[1] > 0:
            return f'{{ distribution = "LogNormal", loc = {float(np.log(value[1]))!r}, scale = {api.WIDTH!r} }}'
        width = api.INTERVAL * max(abs(value[1]), 1e-3)
        return f'{{ distribution = "Uniform", low = {value[1] - width!r}, high = {value[1] + width!r} }}'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _kernel(one: dict) -> Any:
    if one["kind"] == "Product":
        return [_kernel(part) for part in one["parts"]]
    if one["kind"] in ("Sum", "Times"):
        return {"sum" if one["kind"] == "Sum" else "product": [_kernel(part) for part in one["parts"]]}
    inner = {"of": _kernel(one["kernel"])} if one.get("kernel") else {}
    given = {name: value for name, value in one.items() if name not in ("kind", "kernel")}
    return {"kernel": one["kind"], **given, **inner}


def _seasonal(one: dict, name: str) -> dict:
    """A term or a likelihood with its season in the place of one of its entries."""
    found = {key: value for key, value in one.items() if key != "season"}
    if "season" in one:
        season = one["season"]
        found[name] = {"base": one[name], "by": {"period": season["period"]}, "weights": season["weights"]}
    return found


def configuration(case: Case, transform: str | None = None) -> str:
    """The case as TOML."""
    model, (term,) = case.model, case.model["terms"]
    term, like = _seasonal(term, "scale"), _seasonal(model["likelihood"], "noise")
    mean: Any = model["mean"]["intercept"]
    if model["mean"]["features"]:
        features = [
            {"period": f["period"], "order": f["order"]} if f.get("period") else f["name"]
            for f in model["mean"]["features"]
        ]
        weights = [f["weight"] for f in model["mean"]["features"]]
        mean = {"features": features, "weights": weights, "intercept": mean}
    columns = case.snapshots[0][1].shape[1]
    context = {name: name for name in case.snapshots[0][3]}
    sampler = {name: value for name, value in case.settings.items() if name in ("particles", "draws")}
    if case.settings.get("paths", "0") != "0":
        paths = case.settings["paths"].strip("'")
        sampler["paths"] = paths if paths == "auto" else int(paths)
    sections = {
        "data": {"file": "table.csv", "time": "t", "inputs": [f"x{d}" for d in range(columns)], "value": "y"}
        | ({"covariates": context} if context else {}) | ({"transform": transform} if transform else {}),
        "model": {
            "scale": term["scale"], "mean": mean, "time": _kernel(term["time"]), "space": _kernel(term["space"]),
            "likelihood": like,
        },
        "sampler": {"method": "online", **sampler},
        "run": {"folder": "run", "seed": case.seed},
    }  # fmt: skip
    lines = []
    for name, section in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in section.items() if value is not None]
    return "\n".join(lines) + "\n"


def fit(case: Case, folder: Path, transform: str | None = None) -> Any:
    """``seqgp fit`` on the case: the last step that it stored."""
    frame_of(case).to_csv(folder / "table.csv", index=False)
    (folder / "config.toml").write_text(configuration(case, transform))
    return _stored(api.command("fit", folder / "config.toml"), folder)


def update(case: Case, folder: Path, *more: str) -> Any:
    """``seqgp update`` with the case as a table, late and corrected data among them: the last step."""
    frame_of(case).to_csv(folder / "more.csv", index=False)
    return _stored(api.command("update", folder / "run", folder / "more.csv", *more), folder)


def _stored(ended: tuple[int, str], folder: Path) -> Any:
    code, said = ended
    if code != 0:
        raise api.CommandError(said)
    return api.stored(folder / "run").latest()


def exported(folder: Path, ran: Ran) -> list[str]:
    """What ``seqgp export`` writes, read again: the draws of the last step."""
    import xarray as xr

    wrong = []
    code, said = api.command("export", folder / "run", folder / "out.nc", "--arviz")
    if code != 0:
        return [f"export to NetCDF failed: {said}"]
    with xr.open_datatree(folder / "out.nc", engine="h5netcdf") as tree:
        latent = tree["posterior"]["latent"].isel(time=-1).values
    found = latent.reshape(-1, latent.shape[-1])
    found = found[:, ~np.isnan(found).all(axis=0)]
    if not np.array_equal(np.sort(found, axis=None), np.sort(np.asarray(ran.run.state.latent), axis=None)):
        wrong.append("export to NetCDF: the draws that are read back are not those of the run")
    code, said = api.command("export", folder / "run", folder / "out.csv")
    if code != 0:
        return [*wrong, f"export to CSV failed: {said}"]
    table = pd.read_csv(folder / "out.csv")
    if not np.allclose(
        table["mean"].to_numpy()[-latent.shape[-1] :], np.asarray(ran.run.state.latent).mean(0), rtol=1e-6
    ):
        wrong.append("export to CSV: the mean at the last time is not that of the run")
    return wrong
