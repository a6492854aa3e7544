"""Tables as data frames: only regular files of bounded size are read; rows have the numbers of their file."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from seqgp.base.errors import extra, one_line
from seqgp.io.errors import TableError
from seqgp.io.files import open_regular
from seqgp.io.geo import with_coordinates

with extra("io"):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

READERS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".geoparquet": "parquet"}
LARGEST = 2**31  # bytes of a file
MOST_CELLS = 10**9  # of a Parquet file, which is small on disk whatever it unpacks to
_DIALECT: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True}
_OTHER_FILES = {  # how they begin: what to do about one that is called .csv
    b"\xff\xfe": "it is in UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is in UTF-16: save it as UTF-8",
    b"\x1f\x8b": "it is compressed: unpack it first",
    b"PK\x03\x04": "it is a spreadsheet or an archive: save it as CSV",
    b"\xd0\xcf\x11\xe0": "it is a spreadsheet: save it as CSV",
}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_table(path: str | Path, verbatim: Callable[[str], bool] | None = None) -> pd.DataFrame:
    """A CSV or Parquet file as a data frame; what cannot be read is named.

    Args:
        path: the file.
        verbatim: which columns of a CSV are text as it stands there: ``007`` is not 7, and ``NA`` not missing.
    """
    path = Path(path)
    kind = _kind(path)
    content = read_bytes(path)
    if not content.strip():
        raise TableError(f"{path}: the file is empty; a table has a header and rows")
    try:
        frame = _read_csv(path, content, verbatim) if kind == "csv" else _read_parquet(path, content)
    except TableError:
        raise
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not a text file in UTF-8 (byte {error.start}); {_remedy(content)}") from error
    except (ValueError, OSError, NotImplementedError, OverflowError, csv.Error, pa.ArrowException) as error:
        raise TableError(f"{path}: cannot be read as {kind} ({one_line(error)}){separator_hint(path)}") from error
    _check_names(path, list(frame.columns))
    if not len(frame):
        raise TableError(f"{path}: the table has no rows")
    return frame


def _remedy(content: bytes) -> str:
    """What to do about a file that is no CSV in UTF-8, by how it begins."""
    for start, remedy in _OTHER_FILES.items():
        if content.startswith(start):
            return remedy
    zeros, beginning = content[:1000].count(0), len(content[:1000])
    if zeros > beginning / 3:  # letters in UTF-16 are letters in UTF-8, with zeros between them
        return "it is in UTF-16, without its mark: save it as UTF-8"
    if b"\0" in content:
        return "it has zero bytes, as after a crash: write it again"
    return "save it as UTF-8, if it is a CSV"


def read_bytes(path: Path) -> bytes:
    """All of a file that a user gave: a regular one, or a link to one, of a size that can be read."""
    with _open_given(path) as file:
        before = os.fstat(file.fileno())
        content = file.read(LARGEST)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(content) != after.st_size:
        raise _changed(path)
    return content


def _changed(path: Path) -> TableError:
    return TableError(f"{path}: changed while it was read; try again when it is written whole")


def _open_given(path: Path) -> IO[bytes]:
    try:
        file = open_regular(path, follow=True)
    except FileNotFoundError as error:
        raise TableError(f"{path}: no such file; check the path") from error
    except PermissionError as error:
        raise TableError(f"{path}: may not be read ({error.strerror}); check its permissions") from error
    except (OSError, ValueError) as error:  # a loop of links, a pipe, a failing disk; a name with NUL in it
        why = getattr(error, "strerror", None) or str(error)
        raise TableError(f"{path}: cannot be read ({why}); give a regular file") from error
    size = file.seek(0, io.SEEK_END)
    if size > LARGEST:
        file.close()
        raise TableError(f"{path}: {size / 2**30:.1f} GiB, expected at most {LARGEST / 2**30:g}; split it")
    file.seek(0)
    return file


def read_numbered(path: Path) -> pd.DataFrame:
    """A table whose index, ``line``, says where each row stands in the file."""
    frame, lines = read_table(path), itertools.count(2)
    if _kind(path) == "csv":
        lines = [line for line, _ in _records(read_bytes(path).decode("utf-8-sig"))][1:]
    index = pd.Index([line for line, _ in zip(lines, frame.index)], name="line")
    if len(index) < len(frame):  # read twice, and shorter the second time
        raise _changed(path)
    return frame.set_axis(index)


def row_in_file(path: Path, index: int) -> int:
    """The row of a file, the header's being 1, that a record of the table stands in; empty ones count too."""
    if READERS.get(path.suffix.lower()) != "csv":
        return index + 2
    try:
        for number, (line, _) in enumerate(_records(read_bytes(path).decode("utf-8-sig"))):
            if number == index + 1:  # the first record is the header
                return line
    except (TableError, UnicodeDecodeError, csv.Error):
        pass
    return index + 2


def separator_hint(path: Path) -> str:
    """What to say of a table whose header has no comma, but another separator."""
    try:
        with open_regular(path, follow=True) as file:
            first = file.readline(10_000).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return ""
    found = [name for mark, name in _SEPARATORS.items() if mark in first and "," not in first]
    if not found or path.suffix.lower() != ".csv":
        return ""
    return f"; its fields are separated by {found[0]}: save it with commas, and with decimal points in numbers"


def require(path: Path, frame: pd.DataFrame, names: list[str]) -> None:
    """Raise unless the columns are there."""
    for name in names:
        if name not in frame.columns:
            columns = [str(column) for column in frame.columns]
            there = ", ".join(map(repr, columns[:12])) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
            near = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
            near = near or difflib.get_close_matches(name, columns, 1)
            hint = f"; is it {near[0]!r}?" if near else separator_hint(path)
            raise TableError(f"{path}: there is no column {name!r}; the columns are {there}{hint}")


def _kind(path: Path) -> str:
    try:
        if path.is_dir():
            raise TableError(f"{path}: a folder, not a table; give a .csv or .parquet file")
    except ValueError as error:
        raise TableError(f"{str(path)!r}: not a path ({error})") from error
    kind = READERS.get(path.suffix.lower())
    if kind is None and path.exists():
        raise TableError(f"{path}: the name ends in {path.suffix!r}; expected .csv or .parquet")
    return kind or "csv"


def _read_csv(path: Path, content: bytes, verbatim: Callable[[str], bool] | None) -> pd.DataFrame:
    if b"\0" in content:
        raise TableError(f"{path}: not a text file in UTF-8; {_remedy(content)}")
    header = next((record for _, record in _records(_start(content), empty=True)), [])
    if _is_empty(header):
        content = _without_empty_rows(path, content)
        header = next((record for _, record in _records(_start(content))), [])
    _check_names(path, header)  # pandas would call the second one by another name
    # A comma too many in a row must be an error, not an index: index_col=False would cut it off silently.
    frame = pd.read_csv(io.BytesIO(content), **_DIALECT)
    if not isinstance(frame.index, pd.RangeIndex) or _fields_of_first_row(content) > len(header):
        raise ValueError("the rows have more fields than the header")
    _check_fields(content, len(header))
    if frame.isna().all(axis=1).any():  # seldom: then the text decides whether these rows are empty, or say NA
        content = _without_empty_rows(path, content)
        frame = pd.read_csv(io.BytesIO(content), **_DIALECT)
    text = [name for name in header if name and verbatim is not None and verbatim(name)]
    if not text:
        return frame
    as_text = {"usecols": text, "dtype": str, "keep_default_na": False}  # converters would still see missing values
    return frame.assign(**pd.read_csv(io.BytesIO(content), **_DIALECT, **as_text).fillna(""))


def _without_empty_rows(path: Path, content: bytes) -> bytes:
    """A CSV without the rows of separators alone that spreadsheets leave; how many there are is said."""
    every = [record for _, record in _records(content.decode("utf-8-sig"), empty=True)]
    records = [record for record in every if not _is_empty(record)]
    if len(records) == len(every):
        return content
    if len(records) > 1:  # where no row is left, that is what there is to say
        empty = len(every) - len(records)
        said = "1 empty row was" if empty == 1 else f"{empty} empty rows were"
        warnings.warn(f"{path}: {said} left out", stacklevel=2)
    text = io.StringIO(newline="")
    csv.writer(text).writerows(records)
    return text.getvalue().encode()


def _fields_of_first_row(content: bytes) -> int:
    """Below the header: where there are more than there, pandas takes the first for an index, which may be a range."""
    row = next(itertools.islice(_records(_start(content), empty=True), 1, None), None)
    return 0 if row is None else len(row[1])


def _check_fields(content: bytes, fields: int) -> None:
    """Raise where a row stops before its last field, which pandas would call a missing value: a field is lost."""
    if b'"' not in content and all(row.count(b",") >= fields - 1 for row in content.splitlines() if row.strip()):
        return
    records = list(_records(content.decode("utf-8-sig"), empty=True))  # a field in quotes may hold commas, line breaks
    filled = [(line, record) for line, record in records if any(field.strip() for field in record)]
    short = next(((line, len(record)) for line, record in filled if len(record) < fields), None)
    if short is None:
        return
    line, there = short
    why = (
        "the file is cut off"
        if line == records[-1][0]
        else "a field or a comma is missing; leave a missing value empty"
    )
    raise ValueError(f"row {line} stops after {there} of {fields} fields: {why}")


def _start(content: bytes) -> str:
    """The text of the first lines, where the header is."""
    return content[:1_000_000].decode("utf-8-sig", errors="ignore")


def _records(text: str, empty: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV, each with the line that it begins in; blank lines are none.

    Args:
        text: the CSV.
        empty: whether rows of separators alone are among them.
    """
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    line = 1
    for record in reader:
        if not _is_empty(record) or (empty and len(record) > 1):
            yield line, record
        line = reader.line_num + 1


def _is_empty(record: list[str]) -> bool:
    return not any(field.strip() for field in record)


def _read_parquet(path: Path, content: bytes) -> pd.DataFrame:
    schema = pq.read_schema(io.BytesIO(content))
    _check_names(path, schema.names)  # Arrow would speak of tables that cannot be joined
    found = pq.read_metadata(io.BytesIO(content))
    if found.num_rows * found.num_columns > MOST_CELLS:
        raise ValueError(f"{found.num_rows} rows of {found.num_columns} columns are too many; split it")
    frame = pd.read_parquet(io.BytesIO(content))
    named = [name for name in frame.index.names if name is not None]  # which pandas wrote as columns
    return with_coordinates(path, frame.reset_index(named) if named else frame, schema.metadata)


def _check_names(path: Path, names: list[str]) -> None:
    there: set[str] = set()
    for name in names:
        if name != "" and name in there:
            raise TableError(f"{path}: two columns are called {str(name)!r}; rename one")
        there.add(name)
