"""Labels from a side file: messages carry none.

The file has a column Label and a column UETR or MessageId, as CSV or Parquet; a label by UETR is
that of every leg of the payment.  Each transaction needs one label, and each label a transaction.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.schema import LABEL, TRANSACTION_COLUMNS
from pv4fad.tables.columns import Column
from pv4fad.tables.parsing import Check
from pv4fad.tables.sheet import Sheet, read_sheet
from pv4fad.tables.source import open_table

_KEYS = ("MessageId", "UETR")
_COLUMNS = {column.name: column for column in TRANSACTION_COLUMNS}
_ENDINGS = (".labels.csv", ".labels.parquet")


def labels_beside(path: Path) -> Path | None:
    """The label file that belongs to PAYMENTS.xml or a folder PAYMENTS: PAYMENTS.labels.csv."""
    path = _named(path)
    found = [file for file in map(path.with_name, _names(path)) if file.is_file()]
    if len(found) > 1:
        raise DataError(f"{found[0]} and {found[1]}: both hold labels; keep one of them")
    return found[0] if found else None


def labels_name(path: Path) -> str:
    """The name under which labels are written."""
    return _names(path)[0]


def plain_name(path: Path) -> str:
    """The name without .xml, .xml.gz, .csv or .parquet."""
    name = _named(path).name
    for ending in (".gz", ".xml", ".csv", ".parquet"):
        if name.lower().endswith(ending):
            name = name[: -len(ending)]
    return name


def _named(path: Path) -> Path:
    """The path, with a name of its own: that of the folder which `.` or `..` stands for."""
    return path.resolve() if path.name in ("", "..") else path


def _names(path: Path) -> list[str]:
    return [plain_name(path) + ending for ending in _ENDINGS]


def with_labels(sheet: Sheet, file: Path) -> Sheet:
    """The sheet with the labels of the file; a transaction without one is a bad row."""
    if LABEL in sheet.rows.columns:
        raise DataError(f"{sheet.source}: has labels of its own; leave out {file}")
    key = _key(file)
    labels, _ = read_sheet(file, [key, _COLUMNS[LABEL]]).settle("raise")
    numbered = labels.with_row_index("row", offset=1)
    repeated = numbered.filter(~pl.col(key.name).is_first_distinct())
    unknown = numbered.join(sheet.rows, on=key.name, how="anti", maintain_order="left")
    for found, what in (
        (repeated, "listed more than once"),
        (unknown, f"of no transaction in {sheet.source}"),
    ):
        if not found.is_empty():
            # Not the id itself: this may be written to a log.
            first = f"data row {found['row'][0]}"
            raise DataError(
                f"{file}: column {key.name}: {found.height:,} ids {what}; first: {first}"
            )
    joined = sheet.rows.join(labels, on=key.name, how="left", maintain_order="left")
    columns = [name for name in _COLUMNS if name in joined.columns]
    without = joined[LABEL].is_null() & joined[key.name].is_not_null()
    labelled = replace(sheet, rows=joined.select(columns))
    return labelled.with_check(Check(LABEL, f"no label in {file}"), without)


def _key(file: Path) -> Column:
    stored = open_table(file, file).collect_schema()
    keys = [name for name in _KEYS if name in stored]
    if len(keys) != 1:
        raise DataError(f"{file}: needs a column {' or '.join(_KEYS)}, one of them, and {LABEL}")
    return _COLUMNS[keys[0]]
