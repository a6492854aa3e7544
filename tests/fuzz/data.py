"""A case's parameters and data, drawn for a shape: typical ones, and extreme ones on purpose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tests.oracles import dense, likelihoods
from tests.oracles.dense import Rows

from .shapes import Shape
from .values import is_slot, mapped, numbers, sd_of

SLOWNESS = 0.02  # steps of time per step of space, at most: delays over 8 of these stay below the smallest gap


class Frame(NamedTuple):
    """Units of a case: the distance of times, of stations, the size of the latent; and whether it is extreme."""

    dt: float
    dx: float
    y: float
    extreme: bool


def spread(rng: np.random.Generator, low: float, high: float) -> float:
    """Uniform on the log scale."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_frame(rng: np.random.Generator, shape: Shape) -> Frame:
    """Units at random where nothing is known in units of its own."""
    extreme = bool(rng.random() < 0.35)
    if shape.how == "known" or rng.random() < 0.6:
        return Frame(1.0, 1.0, 1.0, extreme)
    own = shape.family in ("Gaussian", "StudentT", "Censored")
    return Frame(spread(rng, 1e-3, 1e3), spread(rng, 1e-3, 1e3), spread(rng, 1e-3, 1e3) if own else 1.0, extreme)


def filled(shape: Shape, rng: np.random.Generator, frame: Frame) -> dict:
    """The model of a case: a value or a prior in each open slot."""
    if shape.how == "known":  # the same for all cases of a shape
        rng, frame = np.random.default_rng(shape.number), frame._replace(extreme=False)
    scale = _scale(rng, shape, frame)

    def fill(leaf):
        if not (is_slot(leaf) and leaf[0] == "?"):
            return leaf
        _, role, how = leaf
        if role == "normal":
            return ("normal", frame.y * float(rng.normal()), frame.y * spread(rng, 0.1, 2.0))
        value = _value(role, rng, frame, scale, shape)
        if how == "known":
            return value
        if how == "narrow":
            return ("narrow", value)
        prior = rng.integers(3)
        if prior == 0:
            return ("gamma", 4.0, 4.0 / value)
        return ("lognormal", float(np.log(value)), 0.5) if prior == 1 else ("halfnormal", 1.5 * value)

    model = mapped(shape.model, fill)
    like = model["likelihood"]
    if "ratios" in like:
        like["ratios"] = [("gamma", like["concentration"][1], like["concentration"][1])] * len(like["ratios"])
    return model


def _scale(rng, shape: Shape, frame: Frame) -> float:
    if frame.extreme and not shape.gaussian:
        return frame.y * spread(rng, 0.1, 10.0)
    return frame.y * spread(rng, 0.5, 2.0)


def _value(role: str, rng, frame: Frame, scale: float, shape: Shape) -> float:
    if role == "swing":
        return float(rng.normal(0.0, 0.3))
    if role == "concentration":
        return spread(rng, 1.5, 10.0)
    wild = frame.extreme and shape.how == "narrow"
    lengthscale = spread(rng, 1e-6, 1e6) if wild and rng.random() < 0.5 else spread(rng, 0.3, 10.0)
    if shape.approximate and role == "time":
        lengthscale = spread(rng, 1.0, 10.0)
    exact = wild and not shape.approximate
    return {
        "time": frame.dt * lengthscale,
        "space": frame.dx * lengthscale,
        "globe": 1000.0 * spread(rng, 0.3, 5.0),
        "scale": scale,
        "noise": scale * (spread(rng, 1e-6, 1e3) if exact else spread(rng, 0.3 if shape.approximate else 1e-2, 3.0)),
        "period": frame.dt * spread(rng, 3.0, 20.0),
        "part": spread(rng, 0.4, 2.0),
        "slope": spread(rng, 0.3, 2.0) / frame.dx,
        "weight": float(rng.choice([-1.0, 1.0])) * spread(rng, 0.3, 2.0),
        "angle": float(rng.uniform(-3.0, 3.0)),
        "intercept": frame.y * float(rng.normal(0.0, 2.0)),
        "slowness": float(rng.uniform(-1.0, 1.0)) * SLOWNESS * frame.dt / frame.dx,
        "trend": float(rng.uniform(-0.2, 0.2)) / frame.dt,
        "df": spread(rng, 1.0 if wild else 3.0, 30.0),
        "dispersion": spread(rng, 0.05, 1e3) if wild else spread(rng, 0.5, 20.0),
        "shape": spread(rng, 0.3, 1e3) if wild else spread(rng, 0.5, 10.0),
        "precision": spread(rng, 0.5, 1e3) if wild else spread(rng, 2.0, 50.0),
    }[role]


def draw_times(rng, shape: Shape, frame: Frame) -> np.ndarray:
    """Regular, irregular, or with gaps whose ratios reach 1e6."""
    kind = rng.integers(3)
    gaps = np.ones(shape.times)
    if kind == 1:
        gaps = rng.uniform(0.2, 2.0, shape.times)
    if kind == 2 and frame.extreme and not (shape.approximate or shape.delayed):
        gaps = np.exp(rng.uniform(np.log(1e-3), np.log(1e3), shape.times))
    return frame.dt * (np.cumsum(gaps) + rng.integers(-3, 3))


def draw_points(rng, shape: Shape, frame: Frame, count: int) -> np.ndarray:
    """Inputs of stations, all different."""
    if shape.globe:
        return np.stack([rng.uniform(-30.0, 40.0, count), rng.uniform(30.0, 65.0, count)], 1)
    x = frame.dx * rng.uniform(-2.0, 2.0, (count, shape.columns))
    if shape.outputs:
        x[:, 0] = rng.integers(0, shape.outputs, count)
    return x


def stations(rng, shape: Shape, frame: Frame) -> np.ndarray:
    """The inputs of the stations of a case."""
    if shape.pattern == "grid":
        a, b = np.sort(rng.uniform(-2, 2, 3)), np.sort(rng.uniform(-2, 2, 2))
        return frame.dx * np.stack([part.ravel() for part in np.meshgrid(a, b, indexing="ij")], 1)
    x = draw_points(rng, shape, frame, shape.stations)
    if shape.pattern == "coincide":
        x[1] = x[0]
    return x


def context_for(rng, shape: Shape, frame: Frame, count: int) -> dict[str, np.ndarray]:
    """What likelihood and mean need of each row."""
    found, like = {}, shape.model["likelihood"]
    if any(feature["name"] == "elevation" for feature in shape.model["mean"]["features"]):
        found["elevation"] = rng.normal(size=count)
    if "exposure" in like:
        found["exposure"] = np.exp(rng.uniform(*(np.log([1e-2, 1e5]) if frame.extreme else np.log([0.3, 30])), count))
    if "trials" in like:
        found["trials"] = np.floor(np.exp(rng.uniform(0, np.log(1e6 if frame.extreme else 50), count)))
    if "errors" in like:
        sizes = np.exp(rng.uniform(np.log(0.3), np.log(3), count))
        found["error"] = sizes * (frame.y if like["combine"] == "squares" else 1.0)
    if like.get("limit") == "limit":
        found["limit"] = frame.y * rng.normal(-0.5, 0.5, count)
    if "ratios" in like:
        found["station"] = np.zeros(count)  # of rows without data, which station it is says nothing
    return found


def draw_data(rng, shape: Shape, frame: Frame, model: dict) -> list[tuple]:
    """Snapshots ``(t, x, y, context)`` from the model itself, then disturbed."""
    times, places, known = draw_times(rng, shape, frame), stations(rng, shape, frame), numbers(model)
    snapshots = []
    for t in times:
        x = places
        which = np.arange(len(places))
        if shape.pattern == "goers":
            which = np.sort(rng.choice(len(places), max(1, len(places) - 1), replace=False))
            x = places[which]
        if shape.pattern == "moving":
            x = draw_points(rng, shape, frame, shape.stations)
        context = context_for(rng, shape, frame, len(x))
        context |= {"station": which.astype(float)} if "station" in context else {}
        snapshots.append((float(t), x, np.zeros(len(x)), context))
    rows = Rows.of(snapshots)
    mean, covariance = (part.astype(float) for part in dense.prior(known, rows))
    values, vectors = np.linalg.eigh(covariance)
    f = mean + vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(mean)))
    f = f if shape.family in ("Gaussian", "StudentT", "Censored") else np.clip(f, -16, 16)
    y = np.array(likelihoods.sample(known["likelihood"], f, rows.named, rng))
    return _disturbed(rng, shape, frame, known, snapshots, y)


def _disturbed(rng, shape: Shape, frame: Frame, known: dict, snapshots: list[tuple], y: np.ndarray) -> list[tuple]:
    if shape.family in ("LogNormal", "Gamma", "Exponential"):
        y = np.clip(y, 1e-30, 1e30)
    if shape.family == "Beta":
        y = np.clip(y, 1e-9, 1 - 1e-9)
    if frame.extreme and shape.family in ("Gaussian", "StudentT") and shape.how != "wide" and rng.random() < 0.4:
        y[rng.integers(len(y))] += sd_of(known) * float(rng.choice([-1, 1])) * spread(rng, 10, 1e6)
    if shape.pattern in ("gaps", "silent", "moving", "network"):
        y = np.where(rng.random(len(y)) < (0.1 if shape.pattern == "network" else 0.3), np.nan, y)
    parts = np.split(y, np.cumsum([len(s[1]) for s in snapshots])[:-1])
    if shape.pattern == "silent":
        parts[rng.integers(len(parts))][:] = np.nan
    return [(t, x, part, context) for (t, x, _, context), part in zip(snapshots, parts)]
