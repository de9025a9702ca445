"""What a split of any schema holds, in a few numbers.  It sees the data of all parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from pv4fad.lead.data import (
    bank_directory,
    holder_rules,
    require_holder_name,
    require_payment_columns,
)
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.loading import AccountTable, load_account_classes, load_partition
from pv4fad.payments.schema import SCHEMA
from pv4fad.payments.summary import PartitionSummary, summarise
from pv4fad.rules import Rules
from pv4fad.schema import Schema
from pv4fad.tables.reading import RecordTable, RowTable, read_records, read_rows
from pv4fad.tables.several import Several
from pv4fad.tables.sheet import OnBadRows
from pv4fad.tables.sides import Sides


@dataclass(frozen=True)
class SideSummary:
    """Who keeps the records of one side, counted in rows."""

    known: int
    """The holder is named, and takes part."""
    unknown: int
    """No holder is named: every holder is asked."""
    outside: int
    """The named holder takes no part."""
    found: int
    """Some holder that can be asked has the record."""


@dataclass(frozen=True)
class SplitSummary:
    """Counts over one split."""

    schema: str
    rows: int
    first_time: datetime
    last_time: datetime
    anomalous: int | None  # None: no labels
    sides: Mapping[str, SideSummary]
    holders: Mapping[str, Mapping[str, int]]  # holder → class → records
    notes: tuple[str, ...]  # what was dropped or ignored on loading

    @property
    def label_rate(self) -> float | None:
        return None if self.anomalous is None else self.anomalous / self.rows


def summarise_split(schema: Schema, folder: Path, on_bad_rows: OnBadRows = "raise") -> SplitSummary:
    """Read a split, apply every holder's rules, and count."""
    table, tables = _read(schema, folder, on_bad_rows)
    rows, time, label = table.frame, schema.rows.time, schema.rows.label
    records = {name: one.frame for name, one in tables.items()}
    directory = bank_directory(records)
    keys = pl.concat(
        [pl.DataFrame(schema={"Holder": pl.String, "Id": pl.String})]
        + [frame.select("Holder", "Id") for frame in records.values()]
    )
    return SplitSummary(
        schema=schema.name,
        rows=rows.height,
        first_time=rows[time].min(),  # type: ignore[arg-type]
        last_time=rows[time].max(),  # type: ignore[arg-type]
        anomalous=int(rows[label].sum()) if label in rows.columns else None,
        sides={
            name: _side(side, keys, list(directory))
            for name, side in zip(schema.side_names, Sides(schema, rows).side_keys(), strict=True)
        },
        holders={name: _class_counts(schema, frame) for name, frame in records.items()},
        notes=tuple(
            note
            for report in (*(one.report for one in tables.values()), table.report)
            for note in report.notes()
        ),
    )


def _read(
    schema: Schema, folder: Path, on_bad_rows: OnBadRows
) -> tuple[RowTable, dict[str, RecordTable]]:
    """Every file is read even if one is bad, so that the error names all problems."""
    partition, several = read_partition(folder), Several()
    tables: dict[str, RecordTable] = {}
    for holder, path in partition.accounts.items():
        with several.reading():
            require_holder_name(holder)
            rules = holder_rules(schema, path)
            tables[holder] = read_records(
                schema, path, holder=holder, rules=rules, on_bad_rows=on_bad_rows
            )
    with several.reading():
        rows = read_rows(
            schema,
            partition.transactions,
            labels_required=partition.labels_required,
            on_bad_rows=on_bad_rows,
        )
    several.refuse()
    return rows, tables


def summarise_payments(
    schema: Schema,
    folder: Path,
    on_bad_rows: OnBadRows = "raise",
    after_file: Callable[[], object] = lambda: None,
) -> PartitionSummary:
    """Read a split of payments, apply every bank's rules, and count."""
    several = Several()
    with several.reading():
        require_payment_columns(schema)
    with several.reading():
        tables = load_partition(folder, on_bad_rows=on_bad_rows, after_file=after_file)
    with several.reading():
        classes, used = _account_classes(schema, folder, on_bad_rows)
    several.refuse()
    accounts = {bank: _used(table, used.get(bank, ())) for bank, table in tables.accounts.items()}
    summary = summarise(replace(tables, accounts=accounts))
    return replace(summary, accounts_by_class=classes)


def _account_classes(
    schema: Schema, folder: Path, on_bad_rows: OnBadRows
) -> tuple[dict[str, dict[str, int]], dict[str, tuple[str, ...]]]:
    """Of each bank whose classes are not just its flags, which are counted anyway: its classes,
    and the columns that decide them."""
    several, counted = Several(), dict[str, dict[str, int]]()
    used: dict[str, tuple[str, ...]] = {}
    for bank, path in read_partition(folder).accounts.items():
        with several.reading():
            require_holder_name(bank)
            rules = holder_rules(schema, path)
            if rules is not None or schema.record != SCHEMA.record:
                accounts = load_account_classes(path, schema, rules, on_bad_rows=on_bad_rows)
                counted[bank] = _class_counts(schema, accounts)
                used[bank] = (rules or Rules(rules=schema.record.rules)).columns
    several.refuse()
    return counted, used


def _used(table: AccountTable, columns: Sequence[str]) -> AccountTable:
    """The table with these columns not noted as ignored: rules read them."""
    extra = tuple(name for name in table.report.extra_columns if name not in columns)
    return replace(table, report=replace(table.report, extra_columns=extra))


def _class_counts(schema: Schema, records: pl.DataFrame) -> dict[str, int]:
    counted = dict(records["Class"].cast(pl.String).value_counts().iter_rows())
    return {name: counted.get(name, 0) for name in schema.record.classes}


def _side(side: pl.DataFrame, keys: pl.DataFrame, members: list[str]) -> SideSummary:
    holder = side["Holder"]
    unknown = int(holder.is_null().sum())
    known = int(holder.is_in(members).sum())
    named = side.join(keys, on=["Holder", "Id"], how="semi").height
    anywhere = side.filter(holder.is_null()).join(keys, on="Id", how="semi").height
    return SideSummary(known, unknown, side.height - known - unknown, named + anywhere)
