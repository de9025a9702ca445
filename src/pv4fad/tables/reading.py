"""The lead's rows and a holder's records, read as the schema says, from a file or frame.

Bad rows are refused with one DataError that has a line for each problem; who passes
on_bad_rows="drop" gets the good rows, and the number of dropped rows per reason in the report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.rules import Rules
from pv4fad.schema import KEY_SEPARATOR, Schema
from pv4fad.tables.columns import CATEGORY, ID, LABEL, NUMBER, TIMESTAMP, Column, choice
from pv4fad.tables.parsing import Check
from pv4fad.tables.sheet import OnBadRows, Sheet, read_sheet
from pv4fad.tables.source import LoadReport

RECORD_KEY = ("Holder", "Id")
_SEPARATOR = ":"  # a namespace has none
_HOLDER = replace(
    ID,
    plain=None,  # without the check below
    wrong=(
        (
            f"a holder with {KEY_SEPARATOR} in its name",
            lambda name: name.str.contains(KEY_SEPARATOR, literal=True),
        ),
    ),
)


@dataclass(frozen=True)
class RowTable:
    """The lead's rows: the columns of `row_columns`, in the order of the source.

    The label is absent if the source has none and labels were not required.
    """

    frame: pl.DataFrame
    report: LoadReport


@dataclass(frozen=True)
class RecordTable:
    """A holder's records: Holder, Id and Class, each (Holder, Id) once."""

    frame: pl.DataFrame
    report: LoadReport


def row_columns(schema: Schema) -> tuple[Column, ...]:
    """The columns of the lead's rows, in order: what rows are, their sides, their features."""
    rows, sides = schema.rows, schema.sides.values()
    columns = [Column(rows.id, ID), Column(rows.time, TIMESTAMP), Column(rows.label, LABEL)]
    columns += [Column(rows.event, ID)] if rows.event else []
    for side in sides:
        columns.append(Column(side.id, ID))
        columns += [Column(side.holder, _HOLDER, nullable=True)] if side.holder else []
    columns += [Column(name, NUMBER, nullable=True) for name in rows.numbers]
    columns += [Column(name, CATEGORY, nullable=True) for name in rows.categories]
    once: dict[str, Column] = {}
    for column in columns:  # sides can have one column for their holders, which can be a category
        once.setdefault(column.name, column)
    return tuple(once.values())


def read_rows(
    schema: Schema, source: Any, *, labels_required: bool, on_bad_rows: OnBadRows = "raise"
) -> RowTable:
    """The lead's table, from a .csv or .parquet file (a Path) or a frame."""
    rows = schema.rows
    optional = () if labels_required else (rows.label,)
    sheet = read_sheet(source, row_columns(schema), optional, name="the rows")
    # Among the good rows only: a bad row must not make a good one with its id a repetition.
    ids = sheet.rows.select(pl.when(~sheet.bad_rows()).then(rows.id)).to_series()
    repeated = ids.is_not_null() & ~ids.is_first_distinct()
    sheet = sheet.with_check(Check(rows.id, "an id that an earlier row has"), repeated)
    frame, report = sheet.settle(on_bad_rows)
    return RowTable(with_namespaces(schema, frame), report)


def with_namespaces(schema: Schema, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the namespace of each side before its ids, where sides have one."""
    spaced = [
        pl.concat_str(pl.lit(side.namespace + _SEPARATOR), side.id).alias(side.id)
        for side in schema.sides.values()
        if side.namespace is not None
    ]
    return rows.with_columns(spaced) if spaced else rows


def read_records(
    schema: Schema,
    source: Any,
    *,
    holder: str,
    rules: Rules | None = None,
    on_bad_rows: OnBadRows = "raise",
) -> RecordTable:
    """A holder's table, from a .csv or .parquet file (a Path) or a frame.

    The class is decided by the holder's own rules, else by those of the schema, else it is in the
    column record.column.  No other column of the holder is kept.
    """
    record = schema.record
    if rules is None and record.rules:
        rules = Rules(rules=record.rules)
    columns = [Column(record.id, ID)]
    columns += [Column(record.holder, _HOLDER)] if record.holder else []
    if record.namespace:
        spaces = {side.namespace for side in schema.sides.values() if side.namespace}
        columns.append(Column(record.namespace, choice("namespace", sorted(spaces))))
    if rules is None:
        columns.append(Column(record.column, choice("class", record.classes)))
        further = []
    else:
        rules.check_classes(record.classes)
        further = [name for name in rules.columns if name not in {c.name for c in columns}]
    # An absent column is reported together with the rule that needs it.
    sheet = read_sheet(source, columns, further, further, name=f"the records of {holder}")
    sheet = _without_conflicts(_as_records(sheet, schema, holder, rules), record.id)
    listed, report = sheet.settle(on_bad_rows)
    frame = listed.unique(RECORD_KEY, keep="first", maintain_order=True)
    return RecordTable(frame, replace(report, n_repeated=listed.height - frame.height))


def _as_records(sheet: Sheet, schema: Schema, holder: str, rules: Rules | None) -> Sheet:
    """The sheet with the columns of a record only."""
    record, rows = schema.record, sheet.rows
    identity = pl.col(record.id)
    if record.namespace:
        space = pl.col(record.namespace).cast(pl.String)
        identity = pl.concat_str(space, identity, separator=_SEPARATOR)
    named = pl.col(record.holder) if record.holder else pl.lit(holder)
    if rules is None:
        classes = rows[record.column]
    else:
        try:
            rules.check_columns([*rows.columns, *sheet.extra_columns])
            classes = rules.classes_of(rows, record.classes)
        except DataError as error:
            raise DataError(f"{sheet.source}: {error}") from None
    frame = rows.select(named.alias("Holder"), identity.alias("Id")).with_columns(
        classes.alias("Class")
    )
    return replace(sheet, rows=frame)


def _without_conflicts(sheet: Sheet, column: str) -> Sheet:
    """After a check that no record is listed with different classes."""
    good = pl.when(~sheet.bad_rows()).then(pl.col("Class").to_physical())
    number = pl.col("number")
    differs = number.min().over(RECORD_KEY) < number.max().over(RECORD_KEY)
    conflicting = sheet.rows.with_columns(number=good).select(
        (number.is_not_null() & differs).fill_null(value=False)
    )
    check = Check(column, "a record that is listed with different classes")
    return sheet.with_check(check, conflicting.to_series())
