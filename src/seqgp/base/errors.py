"""The errors a user meets: each names what, where and the remedy, before anything is compiled."""

import difflib
from collections.abc import Iterable


class SeqgpError(Exception):
    """The base class of all errors that seqgp raises."""


class ModelError(SeqgpError, ValueError):
    """A model, prior, kernel or likelihood that cannot be used as given."""


class DataError(SeqgpError, ValueError):
    """A snapshot, input or time that cannot be used as given."""


class SamplerError(SeqgpError, ValueError):
    """Settings of a sampler, or a state, that cannot be used as given."""


class MissingExtra(SeqgpError, ImportError):
    """A package that is optional, and not installed."""


class extra:
    """``with extra("io"): import pandas``: where a package is missing, the error says which extra brings it."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModuleNotFoundError):
            raise MissingExtra(
                f"{error.name} is not installed; it comes with seqgp[{self.name}]: pip install 'seqgp[{self.name}]'"
            ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known one that is nearest, if one is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_line(error: BaseException, most: int = 200) -> str:
    """What an error of another library says, on one line and not too long; its class where it says nothing."""
    try:
        text = str(error)
    except (Exception, SystemExit):  # of a class of the user's, whose own method fails
        text = ""
    return " ".join(text.split())[:most] or type(error).__name__
