"""Shapes: the structure of a model and the sizes of its data, drawn at random; what is compiled once.

The slots of a shape are ``("?", role, how)``: ``how`` is ``narrow`` (a prior so narrow that the value is known),
``wide`` (inferred) or ``known`` (a number, the same in all cases of the shape).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MATERNS = ("Matern12", "Matern32", "Matern52")
COUNTS = ("Poisson", "NegativeBinomial", "Binomial", "Bernoulli", "Ordinal")
FAMILIES = (*COUNTS, "StudentT", "LogNormal", "Gamma", "Exponential", "Beta", "Censored")
PATTERNS = ("complete", "gaps", "goers", "moving", "coincide", "grid", "one", "silent")
WEEK = 7.0  # the period of seasons
NETWORK = 64  # stations, from which on filters of networks with gaps are of low rank


class Shape(NamedTuple):
    """What cases have in common."""

    number: int
    model: dict
    pattern: str
    stations: int
    columns: int
    times: int
    settings: dict
    how: str  # of the parameters: narrow, wide or known
    globe: bool = False
    outputs: int = 0

    @property
    def delayed(self) -> bool:
        """Whether stations see the latent at local times."""
        return "slowness" in self.model

    @property
    def by_station(self) -> bool:
        """Whether each station has a noise of its own."""
        return "by" in self.model["likelihood"]

    @property
    def family(self) -> str:
        """Of the likelihood."""
        return self.model["likelihood"]["family"]

    @property
    def gaussian(self) -> bool:
        """Whether the dense oracle applies."""
        return self.family == "Gaussian"

    @property
    def approximate(self) -> bool:
        """Whether the kernel of time has no exact state, so that answers are off by what seqgp tells."""
        return any(
            _kinds(term["time"]) & {"SquaredExponential", "RationalQuadratic", "Periodic"} for term in self.terms
        )

    @property
    def terms(self) -> list[dict]:
        """Of the kernel."""
        return self.model["terms"]

    def describe(self) -> str:
        """In a line."""
        season = ["" if "season" not in term else "season·" for term in self.terms]
        terms = [f"{_name(term['time'])}⊗{_name(term['space'])}" for term in self.terms]
        kernels = " + ".join(map("".join, zip(season, terms)))
        features = [feature["name"] for feature in self.model["mean"]["features"]]
        size = f"{self.stations} stations × {self.times} times"
        kernels = f"Delayed({kernels})" if self.delayed else kernels
        like = ", ".join([self.family, *(name for name in ("by", "season") if name in self.model["likelihood"])])
        return f"{self.how} {kernels}, {like}, mean {features or 'constant'}, {self.pattern}, {size}"


def _kinds(kernel: dict) -> set[str]:
    inner = kernel.get("parts", [])
    return {kernel["kind"]}.union(*(_kinds(part) for part in inner))


def _name(kernel: dict) -> str:
    if "parts" in kernel:
        return f"{kernel['kind']}({', '.join(_name(part) for part in kernel['parts'])})"
    inner = kernel.get("kernel")
    return f"{kernel['kind']}({_name(inner)})" if inner else kernel["kind"]


class _Draw:
    """Random structures whose slots are open in the same way."""

    def __init__(self, rng: np.random.Generator, how: str):
        self.rng, self.how, self.left = rng, how, 2  # slots that may still be inferred

    def open(self, role: str, never_wide: bool = False) -> tuple:
        how = self.how
        if how == "wide" and (never_wide or self.left == 0 or self.rng.random() < 0.3):
            how = "narrow"
        if how == "wide":
            self.left -= 1
        return ("?", role, how)

    def time(self, exact: bool = False) -> dict:
        """A kernel of time."""
        kind = self.rng.choice(
            ["Matern", "Matern", "Matern", "Smooth", "Sum", "Times", "Cycle"] if not exact else ["Matern"]
        )
        matern = {"kind": str(self.rng.choice(MATERNS)), "lengthscale": self.open("time")}
        if kind == "Smooth":
            if self.rng.random() < 0.5:
                return {"kind": "SquaredExponential", "lengthscale": self.open("time")}
            return {"kind": "RationalQuadratic", "lengthscale": self.open("time"), "alpha": 1.5}
        if kind == "Sum":
            other = str(self.rng.choice(["Constant", "WhiteNoise"]))
            return {"kind": "Sum", "parts": [matern, {"kind": other, "scale": self.open("part", True)}]}
        if kind == "Times":
            other = {"kind": "Matern12", "lengthscale": self.open("time")}
            return {"kind": "Times", "parts": [matern, other]}
        if kind == "Cycle":
            cycle = {"kind": "Periodic", "lengthscale": 1.5, "period": self.open("period", True)}
            return {"kind": "Times", "parts": [cycle, {"kind": "Matern12", "lengthscale": self.open("time")}]}
        return matern

    def space(self, columns: int, globe: bool, outputs: int) -> dict:
        """A kernel of space."""
        rng = self.rng
        if outputs:
            inner = self.space(columns - 1, False, 0) if columns > 1 else None
            weights = [self.open("weight", True) for _ in range(outputs)]
            own = [self.open("part", True) for _ in range(outputs)]
            return {
                "kind": "Coregionalised",
                "outputs": outputs,
                "rank": 1,
                "kernel": inner,
                "weights": weights,
                "own": own,
            }
        if globe:
            inner = {"kind": str(rng.choice(MATERNS)), "lengthscale": self.open("globe")}
            return {"kind": "GreatCircle", "radius": 6371.0, "kernel": inner}
        plain = str(rng.choice([*MATERNS, "SquaredExponential"]))
        found = {"kind": plain, "lengthscale": self.open("space")}
        kind = rng.choice(
            ["plain"] * 4 + ["each", "Sum", "Times", "Linear", "Product", "Rotated", "Absolute", "Rational", "Periodic"]
        )
        if kind == "each" and columns > 1:
            return {"kind": plain, "lengthscale": [self.open("space") for _ in range(columns)]}
        if kind == "Sum":
            other = str(rng.choice(["Constant", "WhiteNoise"]))
            return {"kind": "Sum", "parts": [found, {"kind": other, "scale": self.open("part", True)}]}
        if kind == "Times":
            return {"kind": "Times", "parts": [found, {"kind": "Matern12", "lengthscale": self.open("space", True)}]}
        if kind == "Linear":
            slope = {"kind": "LinearKernel", "scale": self.open("slope", True), "centre": [0.3] * columns}
            return {"kind": "Sum", "parts": [found, slope]}
        if kind == "Product":
            parts = [{"kind": str(rng.choice(MATERNS)), "lengthscale": self.open("space")} for _ in range(columns)]
            return {"kind": "Product", "parts": parts}
        if kind == "Rotated" and columns == 2:
            both = [self.open("space", True), self.open("space", True)]
            return {
                "kind": "Rotated",
                "angle": self.open("angle", True),
                "kernel": {"kind": plain, "lengthscale": both},
            }
        if kind == "Absolute":
            return {"kind": "Absolute", "width": self.open("space"), "columns": columns}
        if kind == "Rational":
            return {"kind": "RationalQuadratic", "lengthscale": self.open("space"), "alpha": self.open("part", True)}
        if kind == "Periodic" and columns == 1:
            return {"kind": "Periodic", "lengthscale": self.open("part", True), "period": self.open("space", True)}
        return found

    def season(self) -> dict:
        """By what a standard deviation is multiplied in the course of a period."""
        return {"period": WEEK, "weights": [self.open("swing", True), self.open("swing", True)]}

    def mean(self, moves: bool) -> dict:
        """A mean: a constant, or covariates of the context, of time and of place."""
        rng = self.rng
        intercept = [("?", "intercept", self.how), ("?", "normal", "narrow"), 0.0][rng.integers(3)]
        if isinstance(intercept, tuple) and intercept[2] == "wide":
            intercept = ("?", "normal", "narrow")
        if rng.random() < 0.6:
            return {"intercept": intercept, "features": []}
        features = [{"name": "elevation", "weight": ("?", "normal", "narrow")}]
        if moves and rng.random() < 0.4:  # a column that is the same at all data cannot be told from the intercept
            features.append({"name": "first_column", "column": 0, "weight": self.open("weight", True)})
        if rng.random() < 0.4:
            features.append({"name": "season", "period": WEEK, "order": 1, "weight": ("?", "normal", "narrow")})
        return {"intercept": intercept, "features": features}

    def likelihood(self, family: str) -> dict:
        """A likelihood of a family."""
        rng = self.rng
        if family == "Gaussian":
            found: dict[str, Any] = {"family": family, "noise": self.open("noise")}
            variant = rng.choice(["plain", "plain", "plain", "plain", "times", "squares", "trend"])
            if variant in ("times", "squares"):
                found |= {"errors": "error", "combine": str(variant)}
            if variant == "trend":
                found |= {"trend": self.open("trend", True)}
            return found | ({"season": self.season()} if rng.random() < 0.12 else {})
        more = {
            "StudentT": {"noise": self.open("noise"), "df": self.open("df", True)},
            "LogNormal": {"noise": self.open("noise")},
            "Censored": {"noise": self.open("noise"), "limit": "limit"},
            "Poisson": {"exposure": "exposure"} if rng.random() < 0.6 else {},
            "NegativeBinomial": {"dispersion": self.open("dispersion", True)},
            "Binomial": {"trials": "trials"},
            "Bernoulli": {"link": "probit"} if rng.random() < 0.5 else {},
            "Exponential": {},
            "Gamma": {"shape": self.open("shape", True)},
            "Beta": {"precision": self.open("precision", True)},
            "Ordinal": {"cutpoints": [-1.0, 0.4, 1.5]},
        }[family]
        return {"family": family, **more}


def draw_network(rng: np.random.Generator, number: int) -> Shape:
    """Many stations with gaps: filters of low rank."""
    draw, times = _Draw(rng, "narrow"), int(rng.integers(2, 7))
    term = {
        "time": draw.time(exact=True),
        "space": {"kind": str(rng.choice(MATERNS)), "lengthscale": draw.open("space")},
        "scale": draw.open("scale"),
    }
    model = {
        "terms": [term],
        "mean": draw.mean(True),
        "likelihood": {"family": "Gaussian", "noise": draw.open("noise")},
    }
    columns, settings = int(rng.integers(1, 3)), {"particles": 16, "draws": 2000}
    return Shape(number, model, "network", NETWORK, columns, times, settings, "narrow")


def draw_noises(rng: np.random.Generator, number: int) -> Shape:
    """A noise for each of a few stations, of which the ratios are inferred."""
    draw, stations = _Draw(rng, "narrow"), int(rng.integers(2, 4))
    term = {"time": draw.time(exact=True), "space": draw.space(1, False, 0), "scale": draw.open("scale")}
    likelihood = {
        "family": "Gaussian",
        "noise": draw.open("noise"),
        "by": "station",
        "concentration": draw.open("concentration"),
        "ratios": [1.0] * stations,
    }
    model = {"terms": [term], "mean": draw.mean(False), "likelihood": likelihood}
    pattern, times = str(rng.choice(["complete", "gaps", "goers", "silent"])), int(rng.integers(3, 8))
    return Shape(number, model, pattern, stations, 1, times, {"particles": 512, "draws": 4000}, "wide")


def draw_shape(rng: np.random.Generator, number: int) -> Shape:
    """A shape at random; some models have a jitter, which is no part of what filters compute."""
    shape, own = _drawn(rng, number), np.random.default_rng([number, 7])
    jitter = {"jitter": float(10 ** own.uniform(-10, -6))} if own.random() < 0.2 else {}
    return shape._replace(model=shape.model | jitter)


def _drawn(rng: np.random.Generator, number: int) -> Shape:
    special = rng.random()
    if special < 0.1:
        return draw_network(rng, number) if special < 0.05 else draw_noises(rng, number)
    delayed = bool(rng.random() < 0.06)
    family = "Gaussian" if rng.random() < 0.55 else str(rng.choice(FAMILIES))
    gaussian = family == "Gaussian"
    how = str(rng.choice(["narrow", "wide", "known"], p=[0.75, 0.17, 0.08] if gaussian else [0.92, 0.0, 0.08]))
    pattern = str(rng.choice(PATTERNS))
    draw, special = _Draw(rng, how), 1.0 if delayed else rng.random()
    globe, outputs = special < 0.07, 2 if 0.07 <= special < 0.14 else 0
    if pattern == "grid":
        globe, outputs = False, 0
    columns = 2 if globe or pattern == "grid" else int(rng.integers(1, 3)) + (outputs > 0)
    stations = {"one": 1, "grid": 6, "moving": 2}.get(pattern, int(rng.integers(2, 7 if gaussian else 4)))
    times = int(rng.integers(2, 6 if gaussian else 4))
    count = 2 if rng.random() < 0.15 else 1
    terms = [
        {"time": draw.time(exact=delayed), "space": draw.space(columns, globe, outputs), "scale": draw.open("scale")}
        for _ in range(count)
    ]
    if not delayed and rng.random() < 0.1:
        terms[0]["season"] = draw.season()
    model = {"terms": terms, "mean": draw.mean(stations > 1 and not outputs), "likelihood": draw.likelihood(family)}
    if delayed:
        model["slowness"] = [("?", "slowness", "known" if how == "known" else "narrow") for _ in range(columns)]
    settings = {"particles": 128 if how == "wide" else 16, "draws": 4000}
    if pattern == "moving":
        settings["latent"] = "seqgp.Dense()"
    if delayed and not gaussian:
        settings["paths"] = "0"
    elif not gaussian:
        settings["paths"] = str(rng.choice(["64", "'auto'", "0"], p=[0.6, 0.2, 0.2]))
    return Shape(number, model, pattern, stations, columns, times, settings, how, globe, outputs)
