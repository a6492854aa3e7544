"""A model in words: what a configuration says, and what a manifest remembers of a ready-made model.

Only names that are listed here can be written; a likelihood or kernel of one's own is code, and stays in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import numpyro.distributions as dist
from pydantic import BaseModel, ConfigDict, Discriminator, PlainValidator, Tag

from seqgp.models import kernels
from seqgp.models.errors import ModelError, one_line
from seqgp.models.families import Bernoulli, Poisson, StudentT
from seqgp.models.gaussian import Gaussian
from seqgp.models.likelihoods import Likelihood
from seqgp.models.model import Model
from seqgp.models.priors import FromDistribution, Prior, ScaledSigmoid

KernelName = Literal["SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic"]
LikelihoodName = Literal["Gaussian", "StudentT", "Poisson", "Bernoulli"]
DistributionName = Literal[
    "Beta", "Cauchy", "Exponential", "Gamma", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Laplace",
    "LogNormal", "Logistic", "Normal", "StudentT", "Uniform", "Weibull",
]  # fmt: skip


class Strict(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _as_number(value: Any) -> int | float:
    """A whole number stays one: it is described as it was given."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("expected a number")
    return value


Number = Annotated[Any, PlainValidator(_as_number)]


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


def _as_entry(value: Any) -> float:
    try:
        return float(_as_number(value))
    except ValueError:
        raise ValueError('expected a number, { low = …, high = … } or { distribution = "…", … }') from None


def _kind(value: Any) -> str:
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


def _one_or_many(value: Any) -> str:
    return "$list" if isinstance(value, (list, tuple)) else "$one"


SlotSpec = Annotated[
    Annotated[Entry, Tag("$one")] | Annotated[tuple[Entry, ...], Tag("$list")],
    Discriminator(_one_or_many),
]


def _slot(spec: Any) -> Any:
    if isinstance(spec, tuple):
        return [_slot(entry) for entry in spec]
    return spec if isinstance(spec, (int, float)) else spec.build()


class KernelSpec(Strict):
    """A stationary kernel by name."""

    kernel: KernelName = "SquaredExponential"
    lengthscale: SlotSpec = 1.0
    alpha: Entry | None = None

    def build(self) -> kernels.Stationary:
        """The kernel."""
        more = {} if self.alpha is None else {"alpha": _slot(self.alpha)}
        if more and self.kernel != "RationalQuadratic":
            raise ModelError(f"{self.kernel} has no alpha; only RationalQuadratic has")
        return getattr(kernels, self.kernel)(lengthscale=_slot(self.lengthscale), **more)


FAMILIES: dict[str, Callable[..., Likelihood]] = {
    "Gaussian": Gaussian,
    "StudentT": StudentT,
    "Poisson": Poisson,
    "Bernoulli": Bernoulli,
}


class LikelihoodSpec(Strict):
    """A ready-made likelihood by name, with its parameters."""

    family: LikelihoodName = "Gaussian"
    noise: Entry | None = None
    df: Entry | None = None

    def build(self) -> Likelihood:
        """The likelihood."""
        given = {name: _slot(getattr(self, name)) for name in ("noise", "df") if getattr(self, name) is not None}
        takes = {"Gaussian": ["noise"], "StudentT": ["noise", "df"]}.get(self.family, [])
        for name in given:
            if name not in takes:
                raise ModelError(f"likelihood {self.family} has no parameter {name!r}")
        if "noise" in takes and "noise" not in given:
            raise ModelError(f"likelihood {self.family} needs noise: a number or a prior")
        return FAMILIES[self.family](**given)


Space = Annotated[
    Annotated[KernelSpec, Tag("$one")] | Annotated[tuple[KernelSpec, ...], Tag("$list")],
    Discriminator(_one_or_many),
]


class ModelSpec(Strict):
    """A model: kernels in time and space, scale, mean and likelihood."""

    time: KernelSpec
    space: Space
    scale: Entry = 1.0
    mean: Entry = 0.0
    likelihood: LikelihoodSpec
    jitter: float | tuple[float, ...] = 1e-8

    def build(self) -> Model:
        """The model."""
        space = kernels.Product([k.build() for k in self.space]) if isinstance(self.space, tuple) else None
        kernel = kernels.Separable(
            time=self.time.build(),
            space=space or self.space.build(),  # pyright: ignore[reportAttributeAccessIssue]
            scale=_slot(self.scale),
        )
        return Model(kernel, self.likelihood.build(), _slot(self.mean), self.jitter)


def specify(model: Model) -> dict[str, Any] | None:
    """A model in words, or ``None`` where it has parts that only code can say."""
    try:
        ((_, kernel),) = model.kernel.terms()
        words = {
            "time": _kernel_words(kernel.time),
            "space": _space_words(kernel.space),
            "scale": _words(kernel.scale),
            "mean": _words(model.mean),
            "likelihood": {"family": type(model.likelihood).__name__}
            | {name: _words(slot) for name, slot in model.likelihood.priors.items()},
            "jitter": list(model.jitter),
        }
        same = ModelSpec.model_validate(words).build().fingerprint() == model.fingerprint()
    except (_OwnPart, ValueError):
        return None
    return words if same else None


class _OwnPart(Exception):
    """A part of a model that has no name here."""


def _kernel_words(kernel: Any) -> dict[str, Any]:
    if type(kernel).__name__ not in KernelName.__args__:
        raise _OwnPart
    return {"kernel": type(kernel).__name__} | {name: _words(slot) for name, slot in kernel.slots().items()}


def _space_words(kernel: Any) -> Any:
    if type(kernel) is kernels.Product:
        return [_kernel_words(factor) for factor in kernel.factors]
    return _kernel_words(kernel)


def _number(value: Any) -> int | float:
    return value.item() if isinstance(value, np.generic) else value


def _words(slot: Any) -> Any:
    if isinstance(slot, tuple):
        return [_words(entry) for entry in slot]
    if isinstance(slot, float):
        return float(slot)
    if type(slot) is ScaledSigmoid:
        return {name: _number(getattr(slot, name)) for name in ("low", "high", "loc", "scale")}
    if type(slot) is FromDistribution and type(slot.distribution).__name__ in DistributionName.__args__:
        names = slot.distribution.arg_constraints
        values = {name: float(np.asarray(getattr(slot.distribution, name))) for name in names}
        return {"distribution": type(slot.distribution).__name__} | values
    raise _OwnPart
