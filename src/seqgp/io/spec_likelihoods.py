"""Ready-made likelihoods in words: the tables of a configuration follow from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, create_model, model_validator

from seqgp.base.modulated import Modulated
from seqgp.base.options import Option, options_of
from seqgp.base.priors import Parameter
from seqgp.io.spec_entries import Entry, Number, OwnPart, Strict, Whole, one_or_many, slot_of
from seqgp.io.spec_seasons import ScaleSpec, scale_words
from seqgp.likelihoods import catalogue
from seqgp.likelihoods.base import Likelihood
from seqgp.likelihoods.context import Amount

FAMILIES: dict[str, Any] = catalogue.classes(Likelihood)
OPTIONS: dict[str, dict[str, Option]] = {name: options_of(family) for name, family in FAMILIES.items()}
Bins = Annotated[
    Annotated[Whole, Tag("$one")] | Annotated[tuple[Whole, ...], Tag("$list")],
    Discriminator(one_or_many),
]
SEASONAL = Parameter | Modulated  # a standard deviation that may have a season
IN_WORDS: dict[Any, Any] = {  # what an argument is in Python, and what in a configuration
    Parameter: Entry,
    SEASONAL: ScaleSpec,
    Sequence[Parameter]: tuple[Entry, ...],
    Amount: Number | str,  # a number, or the name of one of data.covariates
    float | str: Number | str,
    str: str,
    float: Number,
    Sequence[tuple[float, float]]: tuple[tuple[Number, Number], ...],
    int | Sequence[int]: Bins,
}


class _Family(Strict):
    """A ready-made likelihood by name, with its parameters."""

    family: str

    @model_validator(mode="after")
    def _without_effect(self) -> _Family:
        options, given = OPTIONS[self.family], self._given()
        for key in given:
            if key not in options:
                raise ValueError(f"likelihood {self.family} has no parameter {key!r}; it has: {', '.join(options)}")
        for key, option in options.items():
            if option.required and key not in given:
                raise ValueError(f"likelihood {self.family} needs {key}")
        for key, other in FAMILIES[self.family].only_with.items():
            if key in given and other not in given:
                raise ValueError(f"{key} has no effect without {other}; leave it out")
        return self

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "family"}
        return {name: value for name, value in values.items() if value is not None}

    def build(self) -> Likelihood:
        """The likelihood."""
        return FAMILIES[self.family](**{key: _argument(value) for key, value in self._given().items()})


def _argument(value: Any) -> Any:
    plain = isinstance(value, str) or (isinstance(value, tuple) and value and isinstance(value[0], tuple))
    return value if plain else slot_of(value)


def _fields() -> dict[str, Any]:
    """The keys of all families, each with what it means to which of them."""
    name = Field("Gaussian", description="the distribution of the data given the latent")
    fields: dict[str, Any] = {"family": (Literal[tuple(FAMILIES)], name)}
    for key in dict.fromkeys(key for options in OPTIONS.values() for key in options):
        having = {family: options[key] for family, options in OPTIONS.items() if key in options}
        kinds = [option.kind for option in having.values()]
        widest = SEASONAL if SEASONAL in kinds else kinds[0]
        fields[key] = (_in_words(widest) | None, Field(None, description=_meaning(having)))
    return fields


def _in_words(kind: Any) -> Any:
    if getattr(kind, "__origin__", None) is Literal:
        return kind
    for python, words in IN_WORDS.items():
        if kind in (python, python | None):
            return words
    raise TypeError(f"an argument of a likelihood is {kind}, which has no form in a configuration")


def _meaning(having: dict[str, Option]) -> str:
    """``Gaussian, StudentT: a standard deviation``, for each of several meanings."""
    by_text: dict[str, list[str]] = {}
    for family, option in having.items():
        by_text.setdefault(_described(option), []).append(family)
    return "; ".join(f"{', '.join(families)}: {text}" for text, families in by_text.items())


def _described(option: Option) -> str:
    text = (
        option.description.replace("``", "`")
        .replace(", :class:`seqgp.means.Modulated`", ", a table")
        .replace("the name of an entry of the context", "a covariate")
    )
    if option.default in (None, (), inspect.Parameter.empty):
        return text
    shown = f'`"{option.default}"`' if isinstance(option.default, str) else f"{option.default:g}"
    return f"{text}; {shown} by default"


if TYPE_CHECKING:

    class LikelihoodSpec(_Family):
        """A ready-made likelihood by name, with its parameters."""
else:
    LikelihoodSpec = create_model("LikelihoodSpec", __base__=_Family, __doc__=_Family.__doc__, **_fields())


def likelihood_words(likelihood: Likelihood) -> dict[str, Any]:
    """A likelihood in words."""
    name = type(likelihood).__name__
    if FAMILIES.get(name) is not type(likelihood):
        raise OwnPart
    arguments = likelihood.arguments()
    words = {key: scale_words(v) if key in likelihood.priors else _listed(v) for key, v in arguments.items()}
    return {"family": name} | words


def _listed(value: Any) -> Any:
    """Lists in place of tuples, as a file has them."""
    return [_listed(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
