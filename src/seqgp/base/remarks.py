"""What is off in a step, said so that people read it and a run can add it up: ``kind (what it is about): sentence``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_FORM = re.compile(r"(?P<kind>[^():]+?)(?: \((?P<about>[^()]*)\))?: (?P<text>.*)", re.DOTALL)


class Remark(NamedTuple):
    """A remark in its parts.

    Attributes:
        kind: what is off, in a few words: remarks of one kind are added up.
        about: the parameters, updates or parts that it is about.
        text: the figures and the remedy.
    """

    kind: str
    about: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{_with(self.kind, self.about)}: {self.text}"


def parse(warning: str) -> Remark:
    """A warning of an info in its parts; one of another form is a kind of its own."""
    found = _FORM.fullmatch(warning)
    if found is None:
        return Remark(warning, (), "")
    about = found["about"]
    return Remark(found["kind"], tuple(about.split(", ")) if about else (), found["text"])


def headline(warnings: Sequence[str]) -> str:
    """All warnings of a step in one line; one alone as it is, and of several what they are, without remedies."""
    if len(warnings) < 2:
        return "".join(warnings)
    named: dict[str, list[str]] = {}
    for remark in map(parse, warnings):
        named.setdefault(remark.kind, []).extend(remark.about)
    return "; ".join(_with(kind, about) for kind, about in named.items())


class Tally(NamedTuple):
    """The remarks of one kind over the steps of a run."""

    kind: str
    steps: int  # in how many steps
    about: dict[str, int]  # … for each of what it is about, the most frequent first
    text: str  # of the last one

    def among(self, steps: int) -> str:
        """In a few words, for a run of so many steps."""
        about = [f"{name} in {count}" for name, count in self.about.items()]
        where = "the only step" if steps == 1 else f"{self.steps} of {steps} steps"
        return _with(f"{self.kind} in {where}", list(self.about) if steps == 1 else about)


def add_up(warnings: Iterable[Sequence[str]]) -> list[Tally]:
    """The warnings of the steps of a run, by kind and by what they are about; the most frequent kind first."""
    steps: Counter[str] = Counter()
    about: dict[str, Counter[str]] = {}
    text: dict[str, str] = {}
    for of_step in warnings:
        remarks = [parse(warning) for warning in of_step]
        steps.update({remark.kind for remark in remarks})
        for remark in remarks:
            about.setdefault(remark.kind, Counter()).update(remark.about)
            text[remark.kind] = remark.text
    return [Tally(kind, count, dict(about[kind].most_common()), text[kind]) for kind, count in steps.most_common()]


def _with(what: str, about: Sequence[str]) -> str:
    return f"{what} ({', '.join(about)})" if about else what
