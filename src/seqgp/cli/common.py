"""What all commands share: options, one line per error, exit codes, JSON."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqgp.base.errors import SeqgpError
from seqgp.io.errors import DamagedError

if TYPE_CHECKING:
    from rich.console import Console

    from seqgp.io.store import Store

FINE, FAILED, MISTAKE, DAMAGED, INTERRUPTED, UNREAD = 0, 1, 2, 3, 130, 141

WIDE = 2000  # letters of a line in a file or a pipe, at most
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="The seed of the random numbers.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


class Mistake(SeqgpError):
    """Something that the user asked for and that cannot be done."""


GOES_ON = "every finished step is kept, and the same command goes on"


def command(function: Callable[..., Any] | None = None, *, stopped: str | Callable[..., str] | None = None) -> Any:
    """A command: computes in double precision, and ends with one line and an exit code where something is wrong.

    Args:
        function: what it does.
        stopped: for one that samples, what is true after it was stopped (or a function of its arguments that says
            so): signals are then heard between two pieces of work, not in the middle of one.
    """
    if function is None:
        return functools.partial(command, stopped=stopped)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        as_json, debug = kwargs.get("json", False), kwargs.get("debug", False)
        try:
            with warnings.catch_warnings(), _signals(stopped is not None):
                warnings.showwarning = _noting()
                _prepare()
                return function(*args, **kwargs)
        except BrokenPipeError:  # nobody reads any more, `seqgp … | head`: no mistake, and nothing to say
            raise
        except (SeqgpError, OSError, MemoryError) as error:
            if debug:
                raise
            _complain(_line(error), as_json)
            raise typer.Exit(DAMAGED if isinstance(error, DamagedError) else MISTAKE) from None
        except KeyboardInterrupt as error:
            after = "nothing was half-written" if stopped is None else stopped
            _complain(f"stopped; {after if isinstance(after, str) else after(*args, **kwargs)}", False)
            raise typer.Exit(128 + getattr(error, "number", signal.SIGINT)) from None
        except typer.Exit:
            raise
        except Exception as error:
            if debug:
                raise
            what = f"{type(error).__name__}: {_line(error)}; this is a fault of seqgp: --debug shows where"
            _complain(what, as_json)
            raise typer.Exit(FAILED) from None

    return wrapped


@contextlib.contextmanager
def _signals(flagged: bool) -> Iterator[None]:
    """While a command runs: a flag for one that samples, else an exception as everywhere in Python."""
    if flagged:
        from seqgp.runtime.stopping import stoppable

        with stoppable():
            yield
        return
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and before is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield


def end_at_once(number: int, frame: object) -> None:
    """Before a command begins, while modules are imported, there is nothing to finish."""
    os.write(2, b"seqgp: interrupted before anything was done\n")
    os._exit(128 + number)


def _prepare() -> None:
    """Double precision, and compiled code kept from one command to the next."""
    from seqgp.runtime.cache import CacheError, cache
    from seqgp.runtime.precision import enable_x64

    enable_x64()
    try:
        cache()
    except CacheError as error:  # slower, and nothing worse
        warnings.warn(str(error), stacklevel=2)


def open_run(folder: Path) -> Store:
    """The run in a folder, with at least one step."""
    from seqgp.io.store import Store

    store = Store(folder)
    store.latest().verify()  # damage is found out now, not when the first new data arrive
    return store


def moment(store: Store | None, t: float) -> str:
    """A time of a run in words, with its date where the run's table has dates."""
    from seqgp.io.timestamps import moment_text

    return moment_text(t, {} if store is None else store.manifest.section("data"))


def show(result: dict[str, Any], as_json: bool, text: Callable[[Console], None]) -> None:
    """A result for people or for machines."""
    if as_json:
        print(json.dumps(_plain(result), allow_nan=False, ensure_ascii=False), flush=True)
    else:
        text(console())


def console() -> Console:
    """Where text for people goes; plain where it is not a terminal, and a row of a table is one line, for grep."""
    from rich.console import Console

    folded = "COLUMNS" in os.environ or (sys.stdout is not None and sys.stdout.isatty())
    return Console(highlight=False, soft_wrap=True, width=None if folded else WIDE)


def check_target(path: Path, force: bool = False) -> None:
    """Raise unless a file can be written here."""
    if path.exists() and not force:
        what = "a folder" if path.is_dir() else "there already"
        raise Mistake(f"{path}: is {what}; choose another name, or --force to replace a file")
    if path.is_dir():
        raise Mistake(f"{path}: is a folder; choose another name")
    if not path.parent.is_dir():
        raise Mistake(f"{path}: there is no folder {path.parent}; make it first")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return shown(value) if isinstance(value, (str, Path)) else value


def shown(text: object) -> str:
    """Text that may hold the name of a file, as it can be printed: bytes and control characters are spelled out."""
    printable = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in str(text))
    return "".join(printable).encode("utf-8", "backslashreplace").decode()


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return shown(f"{error.filename}: {error.strerror}")
    return shown(" ".join(str(error).split())) or type(error).__name__


def _complain(text: str, as_json: bool) -> None:
    print(json.dumps({"error": text}, ensure_ascii=False) if as_json else f"seqgp: {text}", file=sys.stderr)


def _noting() -> Callable[..., None]:
    """What becomes of warnings while a command runs: a line each, said once, however often a table is read."""
    said: set[str] = set()

    def note(message: Warning | str, *_: object) -> None:
        text = f"seqgp: note: {' '.join(str(message).split())}"
        if text not in said:
            said.add(text)
            print(text, file=sys.stderr)

    return note


def check_output(output: Path, endings: tuple[str, ...], force: bool) -> None:
    """Raise unless the file's name ends as expected, and it may be written."""
    if output.suffix not in endings:
        expected = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise Mistake(f"{output}: the name ends in {output.suffix!r}; expected {expected}")
    check_target(output, force)
