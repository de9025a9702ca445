"""From the cells of a file to typed values: per kind of column one rule and its checks.

A bad cell becomes null, and every check yields a mask of the rows it objects to.  The masks travel
through the same single pass over the file as the values (a Boolean column costs a bit per row), so
all problems are known when the file has been read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from pv4fad.payments.identity import canonical_account_expr, canonical_bic8_expr
from pv4fad.payments.schema import FLAG_CODES, Column, Kind

_PLAUSIBLE_YEARS = (1970, 2199)  # 22-01-05 would otherwise be a day of the year 22


@dataclass(frozen=True)
class Check:
    """One way in which rows can be bad; `reason` completes the sentence 'n rows have ...'."""

    column: str
    reason: str

    @property
    def mask(self) -> str:
        """The name of the Boolean column that is true where the row is bad."""
        return f"{self.column}: {self.reason}"


def is_readable_as(column: Column, stored: pl.DataType) -> bool:
    """Whether a file that stores `column` as this type can be read; CSV stores text only."""
    return _is_text(stored) or _RULES[column.kind].also_stored_as(stored)


def parse(table: pl.LazyFrame, columns: Sequence[Column]) -> tuple[pl.LazyFrame, list[Check]]:
    """The table with typed columns, followed by one mask per check."""
    stored = table.collect_schema()
    cells = [_cell(column, stored[column.name]) for column in columns]
    values = [
        _RULES[column.kind]
        .value(pl.col(column.name), stored[column.name])
        .cast(column.dtype)
        .alias(_value_name(column))
        for column in columns
    ]
    masks = [
        (check, mask.fill_null(value=False).alias(check.mask))
        for column in columns
        for check, mask in _checks(column)
    ]
    typed = [pl.col(_value_name(column)).alias(column.name) for column in columns]
    # One stage per step, so that the masks re-use the parsed values.
    staged = table.select(cells).with_columns(values).select(*typed, *(mask for _, mask in masks))
    return staged, [check for check, _ in masks]


def _value_name(column: Column) -> str:
    return f"{column.name} (typed)"


def _is_text(stored: pl.DataType) -> bool:
    return isinstance(stored, (pl.String, pl.Categorical, pl.Enum, pl.Null))


def _cell(column: Column, stored: pl.DataType) -> pl.Expr:
    """The cell with blank text as null; an account id is canonical from here on."""
    cell = pl.col(column.name)
    if not _is_text(stored):
        return cell
    text = cell.cast(pl.String)
    text = canonical_account_expr(text) if column.kind is Kind.ACCOUNT else text.str.strip_chars()
    return pl.when(text != "").then(text).alias(column.name)


def _checks(column: Column) -> list[tuple[Check, pl.Expr]]:
    cell, value = pl.col(column.name), pl.col(_value_name(column))
    complaint = _RULES[column.kind].complaint
    checks = []
    if not column.nullable:
        checks.append((Check(column.name, "no value"), cell.is_null()))
    if complaint is not None:
        checks.append((Check(column.name, complaint), value.is_null() & cell.is_not_null()))
    if column.kind is Kind.AMOUNT:
        checks.append((Check(column.name, "a negative amount"), value < 0))
    return checks


def _unchanged(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return cell


def _bic(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return canonical_bic8_expr(cell)


def _currency(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return pl.when(cell.str.contains("^[A-Z]{3}$")).then(cell)


def _timestamp(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    if isinstance(stored, pl.Datetime):
        in_utc = cell.dt.convert_time_zone("UTC") if stored.time_zone else cell
        return in_utc.dt.replace_time_zone(None)
    # ISO 8601 puts a T where the challenge puts a space; a fraction and an offset may follow.
    parts = cell.str.extract_groups(
        r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:(Z)|([+-])(\d\d):(\d\d))?$"
    )
    local = pl.concat_str(parts.struct.field("1"), parts.struct.field("2"), separator=" ")
    moment = local.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    hours, minutes = (parts.struct.field(n).cast(pl.Int64) for n in ("5", "6"))
    offset = pl.duration(hours=hours, minutes=minutes)
    in_utc = (
        pl.when(parts.struct.field("4") == "+")
        .then(moment - offset)
        .when(parts.struct.field("4") == "-")
        .then(moment + offset)
        .otherwise(moment)
    )
    return pl.when(in_utc.dt.year().is_between(*_PLAUSIBLE_YEARS)).then(in_utc)


def _settlement_date(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    if isinstance(stored, pl.Date):
        return cell
    # A number has lost its leading zeros: 50105 is 2005-01-05.
    text = cell.cast(pl.String)
    short = pl.concat_str(pl.lit("20"), text.str.zfill(6)).str.to_date("%Y%m%d", strict=False)
    # ISO 8601, of the same years.
    iso = text.str.extract(r"^(20\d\d-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d)?$")
    return pl.coalesce(short, iso.str.to_date("%Y-%m-%d", strict=False))


def _amount(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    number = cell.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _label(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    number = cell.cast(pl.Float64, strict=False)
    return pl.when(number.is_in([0.0, 1.0])).then(number)


def _flag(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return cell.cast(pl.String).str.zfill(2).cast(pl.Enum(FLAG_CODES), strict=False)


@dataclass(frozen=True)
class _Rule:
    """How a kind is read: its value (null where the cell is no good), and the complaint then."""

    value: Callable[[pl.Expr, pl.DataType], pl.Expr]
    complaint: str | None = None
    also_stored_as: Callable[[pl.DataType], bool] = lambda stored: False  # besides as text


_RULES: dict[Kind, _Rule] = {
    Kind.IDENTIFIER: _Rule(_unchanged),
    Kind.REPEATED_TEXT: _Rule(_unchanged),
    Kind.ACCOUNT: _Rule(_unchanged),
    Kind.BIC: _Rule(_bic, "an invalid BIC"),
    Kind.CURRENCY: _Rule(_currency, "no three-letter currency code"),
    Kind.TIMESTAMP: _Rule(
        _timestamp,
        "an unparsable date (expected YYYY-MM-DD hh:mm:ss)",
        lambda stored: isinstance(stored, pl.Datetime),
    ),
    Kind.SETTLEMENT_DATE: _Rule(
        _settlement_date,
        "an unparsable date (expected YYMMDD or YYYY-MM-DD)",
        lambda stored: isinstance(stored, pl.Date) or stored.is_integer(),
    ),
    Kind.AMOUNT: _Rule(_amount, "no number", lambda stored: stored.is_numeric()),
    Kind.LABEL: _Rule(
        _label,
        "a label other than 0 and 1",
        lambda stored: stored.is_numeric() or isinstance(stored, pl.Boolean),
    ),
    Kind.FLAG: _Rule(
        _flag,
        f"an unknown flag (known: {', '.join(FLAG_CODES)})",
        lambda stored: stored.is_integer(),
    ),
}
