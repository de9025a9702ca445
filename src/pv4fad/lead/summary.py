"""What a split of any schema holds, in a few numbers.  It sees the data of all parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.lead.data import bank_directory, holder_rules, require_holder_name
from pv4fad.payments.challenge import read_partition
from pv4fad.schema import Schema
from pv4fad.tables.reading import RecordTable, RowTable, read_records, read_rows
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
    holders = {}
    for name, frame in records.items():
        counted = dict(frame["Class"].cast(pl.String).value_counts().iter_rows())
        holders[name] = {one: counted.get(one, 0) for one in schema.record.classes}
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
        holders=holders,
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
    partition = read_partition(folder)
    problems: list[str] = []
    tables: dict[str, RecordTable] = {}
    for holder, path in partition.accounts.items():
        require_holder_name(holder)
        rules = holder_rules(schema, path)
        try:
            tables[holder] = read_records(
                schema, path, holder=holder, rules=rules, on_bad_rows=on_bad_rows
            )
        except DataError as error:
            problems.append(str(error))
    try:
        rows = read_rows(
            schema,
            partition.transactions,
            labels_required=partition.labels_required,
            on_bad_rows=on_bad_rows,
        )
    except DataError as error:
        problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    return rows, tables


def _side(side: pl.DataFrame, keys: pl.DataFrame, members: list[str]) -> SideSummary:
    holder = side["Holder"]
    unknown = int(holder.is_null().sum())
    known = int(holder.is_in(members).sum())
    named = side.join(keys, on=["Holder", "Id"], how="semi").height
    anywhere = side.filter(holder.is_null()).join(keys, on="Id", how="semi").height
    return SideSummary(known, unknown, side.height - known - unknown, named + anywhere)
