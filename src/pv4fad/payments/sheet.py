"""A file that has been read, with what is wrong with its rows; settled by refusing or dropping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Literal

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.parsing import Check, is_readable_as, parse
from pv4fad.payments.schema import Column
from pv4fad.payments.source import LoadReport, Problem, open_table, read_table, refuse

OnBadRows = Literal["raise", "drop"]


@dataclass(frozen=True)
class Sheet:
    """All rows of a file, typed, and for each check that found something the mask of bad rows."""

    path: Path
    rows: pl.DataFrame
    found: Mapping[Check, pl.Series]
    extra_columns: tuple[str, ...] = ()  # that the file has and the schema does not
    remarks: tuple[str, ...] = ()
    elements: Mapping[str, str] = field(default_factory=dict)  # where a column comes from, if XML
    place: Callable[[int], str] | None = None  # of a row, counted from 1, if not in a table

    def bad_rows(self) -> pl.Series:
        """The mask of the rows to which any check objects."""
        nothing = pl.repeat(value=False, n=self.rows.height, eager=True)
        return reduce(or_, self.found.values(), nothing)

    def with_check(self, check: Check, mask: pl.Series) -> Sheet:
        """The sheet after a further check."""
        return replace(self, found=dict(self.found) | ({check: mask} if mask.any() else {}))

    def problems(self) -> list[Problem]:
        """One problem per check that found something."""
        return [self._problem(check, mask) for check, mask in self.found.items()]

    def _problem(self, check: Check, mask: pl.Series) -> Problem:
        first = _first(mask)
        return Problem(
            self.path,
            check.reason,
            check.column,
            int(mask.sum()),
            first,
            example=self.place(first) if self.place else None,
            element=self.elements.get(check.column),
        )

    def settle(self, on_bad_rows: OnBadRows) -> tuple[pl.DataFrame, LoadReport]:
        """The good rows; bad ones are an error unless the user chose to drop them."""
        problems = self.problems()
        if on_bad_rows == "raise":
            refuse(problems)
        rows = self.rows.filter(~self.bad_rows()) if problems else self.rows
        if rows.is_empty():
            raise DataError(f"{self.path}: no good row is left; {problems[0]}")
        n_read, n_dropped = self.rows.height, self.rows.height - rows.height
        report = LoadReport(
            self.path,
            n_read,
            n_dropped,
            tuple(problems),
            extra_columns=self.extra_columns,
            remarks=self.remarks,
        )
        return rows, report


def read_sheet(
    path: Path,
    columns: Sequence[Column],
    optional: Sequence[str] = (),
    further: Sequence[str] = (),
) -> Sheet:
    """Read the columns, in this order, from a file; one that is `optional` may be absent.

    `further` columns come after them, with the type that all their values have in common.
    A column that is missing or stored as the wrong type is an error, whatever the user chose to
    do about bad rows; the error also names what is wrong with the rows.
    """
    table = open_table(path)
    stored = table.collect_schema()
    present = [column for column in columns if column.name in stored]
    if not present:
        raise DataError(
            f"{path}: has none of the expected columns {', '.join(c.name for c in columns)}; "
            "is there a header line, with commas between the names?"
        )
    readable = [column for column in present if is_readable_as(column, stored[column.name])]
    problems = [
        Problem(path, "missing from the file", column.name)
        for column in columns
        if column.name not in stored and column.name not in optional
    ]
    problems += [
        Problem(path, "missing from the file", name) for name in further if name not in stored
    ]
    problems += [
        Problem(path, f"stored as {stored[c.name]}, not as {c.kind}", c.name)
        for c in present
        if c not in readable
    ]
    parsed, checks = parse(table, readable)
    frame = read_table(path, parsed)
    names = {column.name for column in columns} | set(further)
    rows = frame.select(column.name for column in readable)
    if further and not problems:
        others = read_table(path, table.select(further))
        rows = rows.with_columns(common_type(others[name]) for name in further)
    sheet = Sheet(
        path,
        rows,
        {check: frame[check.mask] for check in checks if frame[check.mask].any()},
        tuple(name for name in stored if name not in names),
    )
    if problems:
        refuse([*problems, *sheet.problems()])
    return sheet


def common_type(column: pl.Series) -> pl.Series:
    """Text as numbers or dates if every value is one; a column of another type as it is."""
    if column.dtype != pl.String:
        return column
    as_number = column.cast(pl.Float64, strict=False)
    as_date = column.str.to_date("%Y-%m-%d", strict=False)
    for converted in (as_number, as_date):
        if converted.null_count() == column.null_count():
            return converted
    return column


def _first(mask: pl.Series) -> int:
    position = mask.arg_max()
    assert position is not None  # noqa: S101  (a mask is only kept if it has a true value)
    return position + 1
