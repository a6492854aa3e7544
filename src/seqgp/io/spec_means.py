"""Means in words: a constant, or covariates with weights."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from seqgp.io.spec_entries import Entry, OwnPart, SlotSpec, Strict, one_or_many, slot_of, words_of
from seqgp.io.spec_seasons import HarmonicsSpec
from seqgp.means.base import Linear
from seqgp.means.features import FromContext


def _feature_kind(value: Any) -> str:
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


def _mean_kind(value: Any) -> str:
    linear = isinstance(value, LinearSpec) or (isinstance(value, dict) and not value.keys().isdisjoint(LINEAR))
    return "$linear" if linear else "$constant"


LINEAR = ("features", "weights", "intercept")
MeanSpec = Annotated[
    Annotated[Entry, Tag("$constant")] | Annotated[LinearSpec, Tag("$linear")], Discriminator(_mean_kind)
]


def mean_words(mean: Any) -> Any:
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
