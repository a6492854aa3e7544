"""Ready-made parts of a model in words: the keys of a configuration follow from the signatures of their classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from seqgp.base.modulated import Modulated
from seqgp.base.options import Option, options_of
from seqgp.base.priors import Parameter, Slot
from seqgp.io.spec_entries import Entry, Number, ScaleSpec, SlotSpec, Whole, one_or_many, slot_of
from seqgp.likelihoods.context import Amount


def _list_of(kind: object) -> Any:
    """One of a kind, or a list of them."""
    return Annotated[
        Annotated[kind, Tag("$one")] | Annotated[tuple[kind, ...], Tag("$list")], Discriminator(one_or_many)
    ]


IN_WORDS: tuple[tuple[Any, Any], ...] = (  # what an argument is in Python, and what in a configuration
    (Parameter, Entry),
    (Slot, SlotSpec),
    (Parameter | Modulated, ScaleSpec),  # a standard deviation that may have a season
    (Sequence[Parameter], tuple[Entry, ...]),
    (Amount, Number | str),  # a number, or the name of one of data.covariates
    (float | str, Number | str),
    (str, str),
    (float, Number),
    (int, Whole),
    (float | Sequence[float], _list_of(Number)),
    (int | Sequence[int], _list_of(Whole)),
    (Sequence[tuple[float, float]], tuple[tuple[Number, Number], ...]),
)


class Parts:
    """The ready-made parts of one kind by name, with the keys that each takes.

    Args:
        parts: classes, or functions that make parts.
        own_words: what the annotation of an argument is in a configuration, where the table of all has no entry.
    """

    def __init__(self, parts: Mapping[str, Callable[..., Any]], own_words: Callable[[Any], object] = lambda kind: None):
        self.parts, self.own_words = dict(parts), own_words
        self.options: dict[str, dict[str, Option]] = {}
        for name, part in self.parts.items():
            keys = getattr(part, "file_keys", {})
            self.options[name] = {keys.get(key, key): option for key, option in options_of(part).items()}

    def fields(self) -> dict[str, Any]:
        """The keys of all parts as pydantic fields, each with what it means to which of them."""
        fields: dict[str, Any] = {}
        for key in dict.fromkeys(key for options in self.options.values() for key in options):
            having = {name: options[key] for name, options in self.options.items() if key in options}
            fields[key] = (self._in_words(key, having) | None, Field(None, description=self._meaning(key, having)))
        return fields

    def check(self, name: str, given: Mapping[str, object], who: str) -> None:
        """Raise unless the keys that are given are those of a part, and those that it needs are there."""
        options, part = self.options[name], self.parts[name]
        for key in given:
            if key not in options:
                raise ValueError(f"{who} has no parameter {key!r}; it has: {', '.join(options)}")
        for key in options:
            if self._needed(name, key) and key not in given:
                raise ValueError(f"{who} needs {key}")
        for key, other in getattr(part, "only_with", {}).items():
            if key in given and other not in given:
                raise ValueError(f"{key} has no effect without {other}; leave it out")

    def make(self, name: str, given: Mapping[str, object]) -> Any:
        """The part that a table describes."""
        return self.parts[name](**{self.options[name][key].name: _argument(value) for key, value in given.items()})

    def _needed(self, name: str, key: str) -> bool:
        return self.options[name][key].required or key in getattr(self.parts[name], "needed_in_files", ())

    def _in_words(self, key: str, having: dict[str, Option]) -> Any:
        """The form of a key for all parts that have it."""
        forms: list[Any] = []
        for name, option in having.items():
            form = self._form(option.kind)
            if form is None:
                raise TypeError(f"{key} of {name} is {option.kind}, which has no form in a configuration")
            forms += [] if form in forms else [form]
        if len(forms) == 1:
            return forms[0]
        for wider in (SlotSpec, ScaleSpec):
            if all(form in (Entry, wider) for form in forms):
                return wider
        raise TypeError(f"{key} has no form in a configuration that {', '.join(having)} share")

    def _form(self, kind: object) -> Any:
        if getattr(kind, "__origin__", None) is Literal:
            return kind
        found = next((words for python, words in IN_WORDS if kind in (python, python | None)), None)
        return self.own_words(kind) if found is None else found

    def _meaning(self, key: str, having: dict[str, Option]) -> str:
        """``Gaussian, StudentT: a standard deviation``, for each of several meanings; no names where all share one."""
        by_text: dict[str, list[str]] = {}
        for name, option in having.items():
            shown = "" if self._needed(name, key) else _default(option)
            by_text.setdefault(_described(option) + shown, []).append(name)
        if len(by_text) == 1 and len(having) == len(self.parts):
            return next(iter(by_text))
        return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())


def _described(option: Option) -> str:
    text = option.description.replace("``", "`").replace("the name of an entry of the context", "a covariate")
    return text.replace(", `seqgp.means.Modulated`", ", a table")


def _default(option: Option) -> str:
    if option.default in (None, (), inspect.Parameter.empty):
        return ""
    shown = f'`"{option.default}"`' if isinstance(option.default, str) else f"{option.default:g}"
    return f"; {shown} by default"


def _argument(value: object) -> Any:
    plain = isinstance(value, str) or (isinstance(value, tuple) and value and isinstance(value[0], tuple))
    return value if plain else slot_of(value)
