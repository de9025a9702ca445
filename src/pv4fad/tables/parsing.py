"""From the cells of a file or frame to typed values, and the checks of each column.

A bad cell becomes null, and every check yields a mask of the rows it objects to.  The masks travel
through the same single pass over the file as the values (a Boolean column costs a bit per row), so
all problems are known when the file has been read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import polars as pl

from pv4fad.errors import DataError
from pv4fad.tables.columns import Column, is_text

_MARK = "\x1f"  # begins the names of columns that are not the user's
Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Check:
    """One way in which rows can be bad; `reason` completes the sentence 'n rows have ...'."""

    column: str
    reason: str

    @property
    def mask(self) -> str:
        """The name of the Boolean column that is true where the row is bad."""
        return f"{_MARK}{self.column}: {self.reason}"


def is_readable_as(column: Column, stored: pl.DataType) -> bool:
    """Whether a table that stores `column` as this type can be read."""
    return is_text(stored) or column.kind.also_stored_as(stored)


@dataclass(frozen=True)
class Parser:
    """How columns stored as certain types are read; to be made once for many small tables."""

    cells: tuple[pl.Expr, ...]
    values: tuple[pl.Expr, ...]
    typed: tuple[pl.Expr, ...]
    checks: Mapping[Check, pl.Expr]

    @classmethod
    def of(cls, columns: Sequence[Column], stored: Mapping[str, pl.DataType]) -> Self:
        """`stored`: the type of each column, by name."""
        return cls(
            tuple(_cell(column, stored[column.name]) for column in columns),
            tuple(
                column.kind.value(pl.col(column.name), _as_cell(stored[column.name]))
                .cast(column.dtype)
                .alias(_value_name(column))
                for column in columns
            ),
            tuple(pl.col(_value_name(column)).alias(column.name) for column in columns),
            {
                check: mask.fill_null(value=False).alias(check.mask)
                for column in columns
                for check, mask in _checks(column)
            },
        )

    def parse(self, table: Table, further: Sequence[str] = ()) -> Table:
        """The table with typed columns, then the further ones as stored, then a mask per check."""
        # One stage per step, so that the masks re-use the parsed values.
        cleaned = table.select(*self.cells, *further).with_columns(*self.values)
        return cleaned.select(*self.typed, *further, *self.checks.values())


def plain_table(
    columns: Sequence[Column], texts: Mapping[str, Sequence[str | None]]
) -> pl.DataFrame | None:
    """A few rows as `Parser` types them, without a query; None unless all of them are plainly good.

    `texts`: the cells of each column.
    """
    table = []
    for column in columns:
        plain, cells = column.kind.plain, texts[column.name]
        if plain is None or (not column.nullable and None in cells):
            return None
        try:
            values = [None if cell is None else plain(cell) for cell in cells]
        except (ValueError, DataError):
            return None
        table.append(pl.Series(column.name, values, column.dtype))
    return pl.DataFrame(table)


def parse(
    table: pl.LazyFrame, columns: Sequence[Column], further: Sequence[str] = ()
) -> tuple[pl.LazyFrame, list[Check]]:
    """The table as `Parser.parse` gives it, and the checks."""
    parser = Parser.of(columns, table.collect_schema())
    return parser.parse(table, further), list(parser.checks)


def _value_name(column: Column) -> str:
    return f"{_MARK}{column.name}"


def _as_cell(stored: pl.DataType) -> pl.DataType:
    return pl.String() if is_text(stored) else stored


def _cell(column: Column, stored: pl.DataType) -> pl.Expr:
    """The cell with blank text, and NaN in a column of numbers, as null."""
    cell = pl.col(column.name)
    if not is_text(stored):
        return cell.fill_nan(None) if stored.is_float() else cell
    text = column.kind.clean(cell.cast(pl.String))
    return pl.when(text != "").then(text).alias(column.name)


def _checks(column: Column) -> list[tuple[Check, pl.Expr]]:
    cell, value = pl.col(column.name), pl.col(_value_name(column))
    kind = column.kind
    checks = []
    if not column.nullable:
        checks.append((Check(column.name, "no value"), cell.is_null()))
    if kind.complaint is not None:
        checks.append((Check(column.name, kind.complaint), value.is_null() & cell.is_not_null()))
    checks += [(Check(column.name, reason), wrong(value)) for reason, wrong in kind.wrong]
    return checks
