"""Opening a CSV file, a Parquet file or a frame, and saying what is wrong with it.

There is one line for each problem.  A frame can be of polars, or anything that polars can take
over: pandas, Arrow tables, a mapping from names to columns.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import DataError

# polars panics over some damaged Parquet files.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_NO_FRAME = (*_UNREADABLE, TypeError, ValueError, ImportError)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BAD_ENCODING = "bytes that are not UTF-8 (save the file with the encoding UTF-8)"


@dataclass(frozen=True)
class Problem:
    """Something wrong with a table: with all of it, with a column, or with some rows.

    `what` completes '<column>: ' or, if rows are counted, '<column>: n rows have '.  A data row is
    counted from 1, the first row after the header (line numbers would be off after a line break
    inside quotes).  A source that is no table says by itself which `element` a column comes from
    and where the first bad row is (`example`).
    """

    source: Path | str  # a file, or the name of a frame
    what: str
    column: str | None = None
    n_rows: int | None = None
    example_row: int | None = None
    example: str | None = None
    element: str | None = None

    def __str__(self) -> str:
        column = f"column {self.column}" if self.column else ""
        if self.element:
            column = f"element {self.element} ({column})"
        where = f"{self.source}: " + (f"{column}: " if column else "")
        if self.n_rows is None:
            return where + self.what
        rows = "1 row has" if self.n_rows == 1 else f"{self.n_rows:,} rows have"
        counted = "from 1 after the header" if isinstance(self.source, Path) else "from 1"
        example = self.example or f"data row {self.example_row} (counted {counted})"
        return f"{where}{rows} {self.what}; first: {example}"


@dataclass(frozen=True)
class LoadReport:
    """How a table differs from what it was read from: everything left out is counted here."""

    source: Path | str  # a file, or the name of a frame
    n_rows_read: int
    n_rows_dropped: int = 0
    dropped: tuple[Problem, ...] = ()  # per reason; a row with two reasons is counted in both
    n_repeated: int = 0  # records listed again with the same class; the first listing is kept
    extra_columns: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what was counted and used as it is

    def notes(self) -> list[str]:
        """One line for each thing that was left out or counted."""
        lines = [f"dropped: {problem}" for problem in self.dropped]
        if self.n_rows_dropped:
            lines.append(
                f"{self.source}: {self.n_rows_dropped:,} of {self.n_rows_read:,} rows dropped"
            )
        if self.n_repeated:
            lines.append(f"{self.source}: {self.n_repeated:,} repeated listings ignored")
        if self.extra_columns:
            lines.append(f"{self.source}: extra columns ignored: {', '.join(self.extra_columns)}")
        return lines + list(self.remarks)


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one DataError with a line per problem, if there are any."""
    if problems:
        raise DataError("\n".join(str(problem) for problem in problems))


def open_table(source: Any, name: Path | str) -> pl.LazyFrame:
    """The table in a file or frame, not yet read; a CSV file yields text columns only.

    `name` is what errors call it: the path of a file.
    """
    if isinstance(source, Path):
        return _open_file(source)
    try:
        if isinstance(source, (pl.DataFrame, Mapping)) or hasattr(source, "__arrow_c_stream__"):
            table = pl.DataFrame(source).lazy()
        elif isinstance(source, pl.LazyFrame):
            table = source
        elif type(source).__module__.startswith("pandas"):
            table = pl.from_pandas(source).lazy()
        else:
            raise DataError(
                f"{name}: {type(source).__name__} is neither a pathlib.Path nor a data frame"
            )
        table.collect_schema()
    except _NO_FRAME as error:
        raise _explanation(name, error) from None
    return table


def _open_file(path: Path) -> pl.LazyFrame:
    if not path.is_file():
        raise DataError(f"{path}: not found, or not a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    try:
        match path.suffix.lower():
            case ".csv":
                table = _open_csv(path)
            case ".parquet":
                table = pl.scan_parquet(path)
            case _:
                raise DataError(f"{path}: neither a .csv nor a .parquet file")
        table.collect_schema()
    except _UNREADABLE as error:
        raise _explanation(path, error) from None
    return table


def read_table(name: Path | str, table: pl.LazyFrame) -> pl.DataFrame:
    """Read in one pass, in the order of the rows; at least one row."""
    try:
        frame = table.collect(engine="streaming")
    except _UNREADABLE as error:
        raise _explanation(name, error) from None
    if frame.is_empty():
        what = "the file is empty: it" if isinstance(name, Path) else "the table is empty: it"
        raise DataError(f"{name}: {what} has no data row")
    return frame


def _open_csv(path: Path) -> pl.LazyFrame:
    with path.open("rb") as file:
        header = file.readline()
    if header.startswith(_UTF16_MARKS):
        raise DataError(f"{path}: the file is UTF-16; save it with the encoding UTF-8")
    try:
        text = header.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: the header line has {_BAD_ENCODING}") from None
    names = _names(text)
    if repeated := [name for position, name in enumerate(names) if name in names[:position]]:
        raise DataError(f"{path}: the header line has the column {repeated[0]} twice")
    return pl.scan_csv(path, infer_schema=False)


def _names(header: str) -> list[str]:
    """Of the columns that have one."""
    try:
        return [name for name in next(csv.reader([header])) if name]
    except csv.Error:  # which polars explains
        return []


def _explanation(path: Path | str, error: BaseException) -> DataError:
    reason = str(error).strip().split("\n")[0]
    if isinstance(path, str):
        return DataError(f"{path}: not a readable table ({reason})")
    if isinstance(error, pl.exceptions.NoDataError):
        return DataError(f"{path}: the file is empty")
    if path.suffix.lower() == ".csv":
        try:
            refuse(_unreadable_rows(path))
        except DataError as explained:
            return explained
    return DataError(f"{path}: not a readable {path.suffix[1:].upper()} file ({reason})")


@dataclass
class _Tally:
    n_rows: int = 0
    example_row: int = 0

    def add(self, row: int) -> None:
        self.n_rows += 1
        self.example_row = self.example_row or row


@dataclass
class _Unreadable:
    too_long: _Tally = field(default_factory=_Tally)
    not_utf8: dict[str, _Tally] = field(default_factory=dict)


def _unreadable_rows(path: Path) -> list[Problem]:
    """Look for the rows that made polars give up.

    Row by row in Python, slow but only after a failure: polars does not say which row it was.
    """
    found = _Unreadable()
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            _tally(csv.reader(file, strict=True), found)
    except csv.Error as error:
        return [Problem(path, f"not well-formed CSV ({error}); is a quotation mark not closed?")]
    problems = [
        Problem(path, _BAD_ENCODING, column, tally.n_rows, tally.example_row)
        for column, tally in found.not_utf8.items()
    ]
    if found.too_long.n_rows:
        what = "more fields than the header"
        tally = found.too_long
        problems.append(Problem(path, what, None, tally.n_rows, tally.example_row))
    return problems


def _tally(rows: Iterator[list[str]], found: _Unreadable) -> None:
    header = next(rows)
    for number, row in enumerate(rows, start=1):
        if len(row) > len(header):
            found.too_long.add(number)
        # zip stops at the header's length: a field too many is reported as that.
        for column, cell in zip(header, row, strict=False):
            if not cell.isascii() and not _is_utf8(cell):
                found.not_utf8.setdefault(column, _Tally()).add(number)


def _is_utf8(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:  # a byte that did not decode was kept as a lone surrogate
        return False
    return True
