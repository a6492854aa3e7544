"""A stream of a fleet: a name, a sampler and its snapshots."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import lacking
from seqgp.model import Model
from seqgp.samplers.base import Sampler

PAGE = "report.html"  # of a fleet, beside the folders of its streams
LONGEST = 200  # bytes of a name: it is that of a folder
_NAME = re.compile(r"[^./\\\0][^/\\\0]*")

Snapshots = Iterable[Snapshot] | Callable[[], Iterable[Snapshot]]


@dataclasses.dataclass(frozen=True)
class Stream:
    """One stream of a fleet: a name, a sampler or model, and snapshots.

    Args:
        name: the name of the stream and of its run's folder. The stream's random numbers follow from it and the seed.
        sampler: the sampler; or a model, for the best sampler that it allows. Streams with the same sampler share
            compiled code.
        snapshots: a sequence in the order of time; or a function without arguments that returns one. The function is
            called where the stream runs, so the data do not pass through the client.
    """

    name: str
    sampler: Sampler | Model
    snapshots: Snapshots

    def __post_init__(self) -> None:
        """Check what can be checked before anything is run."""
        name = self.name
        if not (isinstance(name, str) and _NAME.fullmatch(name) and name.isprintable()):
            raise DataError(
                f"Stream: {name!r} cannot be the name of a folder: it is text without / and \\, and does not begin "
                "with a dot"
            )
        if name.casefold() == PAGE:
            raise DataError(f"Stream: {name!r} is the name of the fleet's page; choose another")
        if len(name.encode()) > LONGEST:
            raise DataError(f"Stream: the name {name[:20]!r}… is longer than {LONGEST} bytes; shorten it")
        if not (isinstance(self.sampler, Model) or all(hasattr(self.sampler, one) for one in ("init", "step"))):
            what = type(self.sampler).__name__
            raise SamplerError(
                f"Stream {name!r}: expected a sampler or a seqgp.Model, got {what}{lacking(Sampler, self.sampler)}"
            )

    def opened(self) -> tuple[Iterable[Snapshot], dict[str, Any] | None]:
        """The snapshots, and the configuration that the manifest of the run records."""
        return self.snapshots() if callable(self.snapshots) else self.snapshots, None


def check_streams(streams: Iterable[Stream]) -> list[Stream]:
    """The streams of a fleet; each name is one's alone."""
    found = list(streams)
    for one in found:
        if not isinstance(one, Stream):
            raise DataError(f"fleet: expected a seqgp.Stream(name, sampler, snapshots), got {type(one).__name__}")
    if not found:
        raise DataError("fleet: there is no stream; give at least one seqgp.Stream(name, sampler, snapshots)")
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            raise DataError(f"fleet: two streams are called {one.name!r}; a name is that of one run")
        seen.add(one.name)
    return found
