"""A file of pacs.008 messages, or a folder of such files, as a checked sheet of transactions.

Several files are read by several processes, one file in each; one file is read by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.pacs008 import COUNTED, ELEMENTS, read_columns
from pv4fad.payments.schema import LABEL, TRANSACTION_COLUMNS
from pv4fad.tables.parsing import parse
from pv4fad.tables.sheet import Sheet
from pv4fad.workers import WorkerPool, available_cores

ENDINGS = (".xml", ".xml.gz")

_COLUMNS = [column for column in TRANSACTION_COLUMNS if column.name != LABEL]
_WORTH_PROCESSES = 1 << 25  # bytes; below, starting them takes longer than it saves
_MOST_PROBLEMS = 20


def is_messages(path: Path) -> bool:
    """Whether a path is read as ISO 20022: it ends in .xml or .xml.gz, or is a folder."""
    return path.is_dir() or path.name.lower().endswith(ENDINGS)


def message_files(path: Path) -> list[Path]:
    """The file itself, or the .xml and .xml.gz files of a folder by name."""
    if not path.is_dir():
        if not path.is_file():
            raise DataError(f"{path}: not found")
        return [path]
    found = (file for file in path.iterdir() if file.name.lower().endswith(ENDINGS))
    files = sorted(file for file in found if file.is_file())
    if not files:
        raise DataError(f"{path}: the folder has no .xml or .xml.gz file")
    return files


@dataclass(frozen=True)
class _FileRows:
    """The typed rows of one file, with the masks of `parse`; or what is wrong with the file."""

    table: pl.DataFrame | bytes  # bytes, between processes: Arrow
    counts: Mapping[str, int]
    problem: str | None = None


def read_messages(
    path: Path, *, workers: int | None = None, after_rows: Callable[[int], object] = lambda _: None
) -> Sheet:
    """All transactions of a file or a folder, in the order of the files; there is no Label."""
    files = message_files(path)
    if workers is None:
        alone = len(files) == 1 or sum(f.stat().st_size for f in files) < _WORTH_PROCESSES
        workers = 0 if alone else min(available_cores(), len(files))
    tables: list[pl.DataFrame] = []
    counts: Counter[str] = Counter()
    problems: list[str] = []
    with WorkerPool(workers) as pool:
        read = pool.map(_read_packed, files) if workers else (_read(f, after_rows) for f in files)
        for rows in read:
            if rows.problem is not None:
                problems.append(rows.problem)
                tables.clear()
            elif isinstance(rows.table, bytes):
                tables.append(pl.read_ipc(BytesIO(rows.table)))
                after_rows(tables[-1].height)
            else:
                tables.append(rows.table)
            counts.update(rows.counts)
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = problems[:_MOST_PROBLEMS] + ([f"{path}: {more:,} more bad files"] * (more > 0))
        raise DataError("\n".join(shown))
    return _sheet(path, files, tables, counts)


def _read(path: Path, after_rows: Callable[[int], object] = lambda _: None) -> _FileRows:
    counts: Counter[str] = Counter()
    batches = []
    try:
        for batch in typed_batches(path, counts):
            batches.append(batch)
            after_rows(batch.height)
    except DataError as error:
        return _FileRows(b"", {}, str(error))
    return _FileRows(pl.concat(batches), counts)


def _read_packed(path: Path) -> _FileRows:
    rows = _read(path)
    if isinstance(rows.table, bytes):
        return rows
    buffer = BytesIO()
    rows.table.write_ipc(buffer)
    return replace(rows, table=buffer.getvalue())


def typed_batches(path: Path, counts: Counter[str]) -> Iterator[pl.DataFrame]:
    """The rows of one file, typed, with the masks of `parse`: a batch at a time."""
    for text in read_columns(path, counts):
        yield parse(text.lazy(), _COLUMNS)[0].collect()


def _sheet(
    path: Path, files: Sequence[Path], tables: list[pl.DataFrame], counts: Counter[str]
) -> Sheet:
    ends = list(accumulate(table.height for table in tables))
    table = pl.concat(tables, rechunk=True)
    checks = parse(table.lazy().select(pl.lit("").alias(c.name) for c in _COLUMNS), _COLUMNS)[1]
    rows = table.select(column.name for column in _COLUMNS)

    def place(row: int) -> str:
        number = bisect_right(ends, row - 1)
        in_file = row - (ends[number - 1] if number else 0)
        message_id = rows["MessageId"][row - 1]
        named = f" (MessageId {message_id})" if message_id is not None else ""
        return f"transaction {in_file:,} of {files[number]}{named}"

    return Sheet(
        path,
        rows,
        {check: table[check.mask] for check in checks if table[check.mask].any()},
        remarks=tuple(
            f"{path}: {counts[key]:,} {text}" for key, text in COUNTED.items() if counts[key]
        ),
        elements=ELEMENTS,
        place=place,
    )
