"""Seasons in words: harmonics, and parameters that rise and fall with them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from seqgp.base.modulated import Modulated
from seqgp.io.spec_entries import Entry, Number, SlotSpec, Strict, Whole, slot_of, words_of
from seqgp.means.features import Feature, harmonics


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


def _scale_kind(value: Any) -> str:
    seasonal = isinstance(value, ModulatedSpec) or (isinstance(value, dict) and "by" in value)
    return "$season" if seasonal else "$entry"


ScaleSpec = Annotated[
    Annotated[Entry, Tag("$entry")] | Annotated[ModulatedSpec, Tag("$season")], Discriminator(_scale_kind)
]


def scale_words(scale: Any) -> Any:
    """A standard deviation in words, with its season where it has one."""
    if not isinstance(scale, Modulated):
        return words_of(scale)
    season = scale.season
    return {
        "base": words_of(scale.base),
        "by": {"period": season.period, "order": season.order, "name": season.name},
        "weights": words_of(scale.weights),
    }
