"""Ready-made likelihoods in words: by name, with the arguments of their classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, model_validator

from seqgp.base.priors import Prior
from seqgp.io.spec_entries import OwnPart, Strict
from seqgp.io.spec_parts import Parts
from seqgp.io.spec_seasons import scale_words
from seqgp.likelihoods import Likelihood, catalogue

FAMILIES: dict[str, Any] = catalogue.classes(Likelihood)
PARTS = Parts(FAMILIES)


class _Family(Strict):
    """A ready-made likelihood by name, with its parameters."""

    family: str

    @model_validator(mode="after")
    def _without_effect(self) -> _Family:
        PARTS.check(self.family, self._given(), f"likelihood {self.family}")
        return self

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "family"}
        return {name: value for name, value in values.items() if value is not None}

    def build(self) -> Likelihood:
        """The likelihood."""
        return PARTS.make(self.family, self._given())


if TYPE_CHECKING:

    class LikelihoodSpec(_Family):
        """A ready-made likelihood by name, with its parameters."""
else:
    _family = (Literal[tuple(FAMILIES)], Field("Gaussian", description="the distribution of the data given the latent"))
    LikelihoodSpec = create_model(
        "LikelihoodSpec", __base__=_Family, __doc__=_Family.__doc__, family=_family, **PARTS.fields()
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


def _listed(value: Any) -> Any:
    """Lists in place of tuples, as a file has them."""
    return [_listed(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
