"""Parameters in words: numbers, priors, lists of them, and such that have a season, as a configuration says them.

A manifest keeps them in the same words.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
import numpyro.distributions as dist
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PlainValidator, Tag

from seqgp.base.errors import ModelError, SeqgpError, one_line
from seqgp.base.modulated import Modulated
from seqgp.base.priors import FromDistribution, Prior, ScaledSigmoid
from seqgp.means.features import Feature, harmonics

DistributionName = Literal[
    "Beta", "Cauchy", "Exponential", "Gamma", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Laplace",
    "LogNormal", "Logistic", "Normal", "StudentT", "Uniform", "Weibull",
]  # fmt: skip


class Strict(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _as_number(value: object) -> int | float:
    """A whole number stays one: it is described as it was given."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond double precision
        finite = False
    if not finite:
        raise ValueError("expected a number")
    return value


def _no_text(value: object) -> Any:
    """``"20"`` is no 20, and ``true`` no 1: what is written in another way is a slip."""
    if isinstance(value, (str, bool)):
        raise ValueError("expected a number")
    return value


Number = Annotated[Any, PlainValidator(_as_number)]
Whole = Annotated[int, BeforeValidator(_no_text)]
Real = Annotated[float, BeforeValidator(_no_text)]


class SigmoidSpec(Strict):
    """``{ low = 0, high = 3 }``: between two bounds."""

    low: Number
    high: Number
    loc: Number = 0.0
    scale: Number = 1.5

    def build(self) -> Prior:
        """The prior."""
        return ScaledSigmoid(self.low, self.high, self.loc, self.scale)


class DistributionSpec(BaseModel):
    """``{ distribution = "Gamma", concentration = 2.0, rate = 1.0 }``: a NumPyro distribution by name."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Number]  # pyright: ignore[reportIncompatibleVariableOverride]
    distribution: DistributionName

    def build(self) -> Prior:
        """The prior."""
        cls = getattr(dist, self.distribution)
        arguments = self.__pydantic_extra__ or {}
        unknown = sorted(set(arguments) - set(cls.arg_constraints))
        if unknown:
            known = ", ".join(cls.arg_constraints) or "none"
            raise ModelError(f"{self.distribution} has no parameter {unknown[0]!r}; it has: {known}")
        try:
            return FromDistribution(cls(**arguments, validate_args=True))
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.distribution}: {one_line(error)}") from error


def _as_entry(value: object) -> float:
    try:
        return float(_as_number(value))
    except ValueError:
        raise ValueError('expected a number, { low = …, high = … } or { distribution = "…", … }') from None


def _kind(value: object) -> str:
    if isinstance(value, (SigmoidSpec, DistributionSpec)):
        return "$distribution" if isinstance(value, DistributionSpec) else "$sigmoid"
    if isinstance(value, dict):
        return "$distribution" if "distribution" in value else "$sigmoid"
    return "$number"


Entry = Annotated[
    Annotated[Any, PlainValidator(_as_entry), Tag("$number")]
    | Annotated[SigmoidSpec, Tag("$sigmoid")]
    | Annotated[DistributionSpec, Tag("$distribution")],
    Discriminator(_kind),
]


def one_or_many(value: object) -> str:
    """The tag of a value that may be a list."""
    return "$list" if isinstance(value, (list, tuple)) else "$one"


SlotSpec = Annotated[
    Annotated[Entry, Tag("$one")] | Annotated[tuple[Entry, ...], Tag("$list")],
    Discriminator(one_or_many),
]


def slot_of(spec: Any) -> Any:
    """A number, a prior, or a list of these, as a model takes them."""
    if isinstance(spec, tuple):
        return [slot_of(entry) for entry in spec]
    return spec if isinstance(spec, (int, float)) else spec.build()


class OwnPart(SeqgpError):
    """A part of a model that has no name here."""


def _number(value: Any) -> int | float:
    return value.item() if isinstance(value, np.generic) else value


def words_of(slot: object) -> Any:
    """A parameter in words: what ``slot_of`` is given."""
    if isinstance(slot, tuple):
        return [words_of(entry) for entry in slot]
    if isinstance(slot, float):
        return float(slot)
    if type(slot) is ScaledSigmoid:
        return {name: _number(getattr(slot, name)) for name in ("low", "high", "loc", "scale")}
    if type(slot) is FromDistribution and type(slot.distribution).__name__ in DistributionName.__args__:
        names = slot.distribution.arg_constraints
        values = {name: np.asarray(getattr(slot.distribution, name)).item() for name in names}  # 2 stays 2, not 2.0
        return {"distribution": type(slot.distribution).__name__} | values
    raise OwnPart


class HarmonicsSpec(Strict):
    """``{ period = 365.25, order = 2 }``: cosines and sines of time."""

    period: Number
    order: Whole = Field(1, ge=1, le=1000)
    name: str = "season"

    def build(self) -> Feature:
        """The feature."""
        return harmonics(self.period, self.order, self.name)


class ModulatedSpec(Strict):
    """``{ base = …, by = { period = 365.25 }, weights = … }``: a standard deviation with a season."""

    base: Entry = Field(description="the geometric mean over the season")
    by: HarmonicsSpec = Field(description="`{ period = 365.25, order = 2 }`")
    weights: SlotSpec = Field(description="of the harmonics, in the logarithm: one for all, or a list")

    def build(self) -> Modulated:
        """The parameter."""
        return Modulated(slot_of(self.base), self.by.build(), slot_of(self.weights))


def _scale_kind(value: object) -> str:
    seasonal = isinstance(value, ModulatedSpec) or (isinstance(value, dict) and "by" in value)
    return "$season" if seasonal else "$entry"


ScaleSpec = Annotated[
    Annotated[Entry, Tag("$entry")] | Annotated[ModulatedSpec, Tag("$season")], Discriminator(_scale_kind)
]


def scale_words(scale: object) -> Any:
    """A standard deviation in words, with its season where it has one."""
    if not isinstance(scale, Modulated):
        return words_of(scale)
    season = scale.season
    return {
        "base": words_of(scale.base),
        "by": {"period": season.period, "order": season.order, "name": season.name},
        "weights": words_of(scale.weights),
    }
