"""The sections of a model in words: kernels, likelihoods and means, by name with the arguments of their classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from pydantic import Discriminator, Field, Tag, create_model, field_validator, model_validator

from seqgp.base.priors import Prior
from seqgp.io.spec_entries import (
    Entry,
    HarmonicsSpec,
    OwnPart,
    SlotSpec,
    Strict,
    one_or_many,
    scale_words,
    slot_of,
    words_of,
)
from seqgp.io.spec_parts import Parts
from seqgp.kernels import Kernel, Product, SquaredExponential, Sum
from seqgp.kernels import catalogue as kernel_catalogue
from seqgp.likelihoods import Likelihood
from seqgp.likelihoods import catalogue as likelihood_catalogue
from seqgp.means.base import Linear
from seqgp.means.features import FromContext

DEFAULT = SquaredExponential.__name__


def _of_kernel(kind: object) -> Any:
    """An argument that is a kernel, or none, is a table."""
    kinds = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
    return Optional["KernelSpec"] if all(isinstance(one, type) and issubclass(one, Kernel) for one in kinds) else None


KERNELS: dict[str, Any] = {name: kernel for name, kernel in kernel_catalogue.classes(Kernel).items() if kernel.in_files}
KERNEL_PARTS = Parts(KERNELS, _of_kernel)
RENAMED = {getattr(kernel, "identity", name): name for name, kernel in KERNELS.items()}  # as version 0.2 wrote them


class _Kernel(Strict):
    """A kernel by name, or a sum or product of kernels."""

    if TYPE_CHECKING:
        kernel: str | None
        sum: tuple[KernelSpec, ...] | None
        product: tuple[KernelSpec, ...] | None

    @field_validator("kernel", mode="before", check_fields=False)
    @classmethod
    def _renamed(cls, name: object) -> Any:
        return RENAMED.get(name, name) if isinstance(name, str) else name

    @model_validator(mode="after")
    def _without_effect(self) -> _Kernel:
        given = self._given()
        for way in ("sum", "product"):
            if getattr(self, way) is not None:
                for other in [name for name in type(self).model_fields if getattr(self, name) is not None]:
                    if other != way:
                        raise ValueError(
                            f"{other} has no effect beside {way}: it belongs into the kernels of the {way}"
                        )
                return self
        name = self.kernel or DEFAULT
        KERNEL_PARTS.check(name, given, name)
        return self

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: v for name, v in values.items() if v is not None and name not in ("kernel", "sum", "product")}

    def build(self) -> Kernel:
        """The kernel."""
        if self.sum is not None:
            return Sum(tuple(one.build() for one in self.sum))
        if self.product is not None:
            return Product(tuple(one.build() for one in self.product))
        return KERNEL_PARTS.make(self.kernel or DEFAULT, self._given())


if TYPE_CHECKING:

    class KernelSpec(_Kernel):
        """A kernel by name, or a sum or product of kernels."""
else:
    _several = tuple["KernelSpec", ...] | None
    _name = Field(None, description=f'its name; `"{DEFAULT}"` by default')
    _sum = Field(None, min_length=2, description="in place of a name: kernels that add")
    _product = Field(None, min_length=2, description="in place of a name: kernels that multiply")
    KernelSpec = create_model(
        "KernelSpec",
        __base__=_Kernel,
        __doc__=_Kernel.__doc__,
        **{"kernel": (Literal[tuple(KERNELS)] | None, _name)},
        **KERNEL_PARTS.fields(),
        **{"sum": (_several, _sum), "product": (_several, _product)},
    )
    KernelSpec.model_rebuild(_types_namespace={"KernelSpec": KernelSpec})


def kernel_words(kernel: Kernel | None) -> dict[str, Any]:
    """A kernel in words."""
    if isinstance(kernel, (Sum, Product)) and type(kernel) in (Sum, Product):
        return {"sum" if type(kernel) is Sum else "product": [kernel_words(part) for part in kernel.parts]}
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise OwnPart
    words: dict[str, Any] = {"kernel": name}
    for key, option in KERNEL_PARTS.options[name].items():
        value = getattr(kernel, option.name)
        if value is not None:
            words[key] = _value_words(value)
    return words


def _value_words(value: object) -> Any:
    if isinstance(value, Kernel):
        return kernel_words(value)
    return value if isinstance(value, int) else words_of(value)


FAMILIES: dict[str, Any] = likelihood_catalogue.classes(Likelihood)
LIKELIHOOD_PARTS = Parts(FAMILIES)


class _Family(Strict):
    """A ready-made likelihood by name, with its parameters."""

    family: str

    @model_validator(mode="after")
    def _without_effect(self) -> _Family:
        LIKELIHOOD_PARTS.check(self.family, self._given(), f"likelihood {self.family}")
        return self

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "family"}
        return {name: value for name, value in values.items() if value is not None}

    def build(self) -> Likelihood:
        """The likelihood."""
        return LIKELIHOOD_PARTS.make(self.family, self._given())


if TYPE_CHECKING:

    class LikelihoodSpec(_Family):
        """A ready-made likelihood by name, with its parameters."""
else:
    _family = (Literal[tuple(FAMILIES)], Field("Gaussian", description="the distribution of the data given the latent"))
    LikelihoodSpec = create_model(
        "LikelihoodSpec", __base__=_Family, __doc__=_Family.__doc__, family=_family, **LIKELIHOOD_PARTS.fields()
    )


def likelihood_words(likelihood: Likelihood) -> dict[str, Any]:
    """A likelihood in words."""
    name = type(likelihood).__name__
    if FAMILIES.get(name) is not type(likelihood):
        raise OwnPart
    arguments = likelihood.arguments()
    words = {
        key: scale_words(v) if key in likelihood.priors or isinstance(v, Prior) else _listed(v)
        for key, v in arguments.items()
    }
    return {"family": name} | words


def _listed(value: object) -> Any:
    """Lists in place of tuples, as a file has them."""
    return [_listed(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def _feature_kind(value: object) -> str:
    return "$name" if isinstance(value, str) else "$harmonics"


FeatureSpec = Annotated[
    Annotated[str, Tag("$name")] | Annotated[HarmonicsSpec, Tag("$harmonics")], Discriminator(_feature_kind)
]
Weights = Annotated[
    Annotated[Entry, Tag("$one")] | Annotated[tuple[SlotSpec, ...], Tag("$list")], Discriminator(one_or_many)
]


class LinearSpec(Strict):
    """A mean with covariates: ``intercept + Σ weight · feature``."""

    features: tuple[FeatureSpec, ...] = Field(
        min_length=1, description="names of `data.covariates`, or `{ period = 365.25, order = 2 }` for a season"
    )
    weights: Weights = Field(description="one for all features, or a list with one for each")
    intercept: Entry = Field(0.0, description="the mean where all features are zero")

    def covariates(self) -> tuple[str, ...]:
        """The features that are columns of the data."""
        return tuple(feature for feature in self.features if isinstance(feature, str))

    def build(self) -> Linear:
        """The mean."""
        features = [feature if isinstance(feature, str) else feature.build() for feature in self.features]
        return Linear(features, slot_of(self.weights), slot_of(self.intercept))


def _mean_kind(value: object) -> str:
    linear = isinstance(value, LinearSpec) or (isinstance(value, dict) and not value.keys().isdisjoint(LINEAR))
    return "$linear" if linear else "$constant"


LINEAR = ("features", "weights", "intercept")
MeanSpec = Annotated[
    Annotated[Entry, Tag("$constant")] | Annotated[LinearSpec, Tag("$linear")], Discriminator(_mean_kind)
]


def mean_words(mean: object) -> Any:
    """A mean in words."""
    if not isinstance(mean, Linear):
        return words_of(mean)
    return {
        "features": [_feature_words(feature) for feature in mean.features],
        "weights": [words_of(slot) for slot in mean.weights.values()],
        "intercept": words_of(mean.intercept),
    }


def _feature_words(feature: Any) -> Any:
    if isinstance(feature, FromContext):
        return feature.name
    if feature.cycle is None:
        raise OwnPart
    period, order = feature.cycle
    return {"period": period, "order": order, "name": feature.name}
