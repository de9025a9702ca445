"""A table that has been read, with what is wrong with its rows; settled by refusing or dropping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal

import polars as pl

from pv4fad.errors import DataError
from pv4fad.tables.columns import Column
from pv4fad.tables.parsing import Check, is_readable_as, parse
from pv4fad.tables.source import LoadReport, Problem, open_table, read_table, refuse

OnBadRows = Literal["raise", "drop"]


@dataclass(frozen=True)
class Sheet:
    """All rows of a table, typed, and for each check that found something the mask of bad rows."""

    source: Path | str  # a file, or the name of a frame
    rows: pl.DataFrame
    found: Mapping[Check, pl.Series]
    extra_columns: tuple[str, ...] = ()  # that the table has and nobody asked for
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
            self.source,
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
            raise DataError(f"{self.source}: no good row is left; {problems[0]}")
        n_read, n_dropped = self.rows.height, self.rows.height - rows.height
        report = LoadReport(
            self.source,
            n_read,
            n_dropped,
            tuple(problems),
            extra_columns=self.extra_columns,
            remarks=self.remarks,
        )
        return rows, report


def read_sheet(
    source: Any,
    columns: Sequence[Column],
    optional: Sequence[str] = (),
    further: Sequence[str] = (),
    *,
    name: str = "the table",
) -> Sheet:
    """Read the columns, in this order, from a file or frame; one that is `optional` may be absent.

    `further` columns come after them, as they are stored.  `name` is what errors call a frame; a
    file is called by its path.
    A column that is missing or stored as the wrong type is an error, whatever the user chose to
    do about bad rows; the error also names what is wrong with the rows.
    """
    called = source if isinstance(source, Path) else name
    table = open_table(source, called)
    stored = table.collect_schema()
    present = [column for column in columns if column.name in stored]
    if not present:
        raise _no_column(called, columns, list(stored))
    readable = [column for column in present if is_readable_as(column, stored[column.name])]
    absent = "missing from the file" if isinstance(called, Path) else "missing"
    needed = [given for given in (*(c.name for c in columns), *further) if given not in optional]
    problems = [Problem(called, absent, given) for given in needed if given not in stored]
    problems += [
        Problem(called, f"stored as {stored[c.name]}, not as {c.kind.name}", c.name)
        for c in present
        if c not in readable
    ]
    kept = [given for given in further if given in stored]
    parsed, checks = parse(table, readable, kept)
    frame = read_table(called, parsed)
    sheet = Sheet(
        called,
        frame.select(*(column.name for column in readable), *kept),
        {check: frame[check.mask] for check in checks if frame[check.mask].any()},
        tuple(given for given in stored if given not in {c.name for c in columns} | set(further)),
    )
    if problems:
        refuse([*problems, *sheet.problems()])
    return sheet


def _no_column(called: Path | str, columns: Sequence[Column], there: Sequence[str]) -> DataError:
    expected = f"has none of the expected columns {', '.join(c.name for c in columns)}"
    if isinstance(called, Path):
        why = "is there a header line, with commas between the names?"
    else:
        why = f"its columns are {', '.join(there) or 'none'}"
    return DataError(f"{called}: {expected}; {why}")


def _first(mask: pl.Series) -> int:
    position = mask.arg_max()
    assert position is not None  # noqa: S101  (a mask is only kept if it has a true value)
    return position + 1
