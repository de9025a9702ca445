"""Columns of a table: what their values are, how they are read from a file or frame, and checked.

A `Kind` carries its own rule, so another package can add kinds (`pv4fad.payments.kinds` does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

_MOMENT = pl.Datetime("us")
_PLAUSIBLE_YEARS = (1970, 2199)  # 22-01-05 would otherwise be a day of the year 22
_NO_AMOUNT = 1e18


def _stripped(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars()


def _unchanged(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return cell


@dataclass(frozen=True)
class Kind:
    """What the values of a column are; says how they are read and checked."""

    name: str
    dtype: pl.DataType
    """In memory."""
    value: Callable[[pl.Expr, pl.DataType], pl.Expr] = _unchanged
    """From a cell that is stored as this type; null where the cell is no good."""
    complaint: str | None = None
    """Completes the sentence 'n rows have ...' where the value is null and the cell is not."""
    also_stored_as: Callable[[pl.DataType], bool] = lambda stored: False
    """Besides as text, which is always allowed; CSV stores text only."""
    clean: Callable[[pl.Expr], pl.Expr] = _stripped
    """Text before anything else; what is empty after it counts as no value."""
    wrong: tuple[tuple[str, Callable[[pl.Expr], pl.Expr]], ...] = ()
    """Further complaints, with what is true of a value to which they apply."""
    plain: Callable[[str], Any] | None = None
    """The value of one text, if it is as most are; ValueError if it is wrong or of another form.

    The same value as by `clean` and `value`, without a query: for a few rows at a time.
    """


@dataclass(frozen=True)
class Column:
    """One column of a table; a nullable one may be blank, which is information, not an error."""

    name: str
    kind: Kind
    nullable: bool = False

    @property
    def dtype(self) -> pl.DataType:
        return self.kind.dtype


def is_text(stored: pl.DataType) -> bool:
    """Whether a column of this type holds text, or nothing at all."""
    return isinstance(stored, (pl.String, pl.Categorical, pl.Enum, pl.Null))


def _timestamp(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    if isinstance(stored, pl.Date):
        return cell.cast(pl.Datetime("us"))
    if isinstance(stored, pl.Datetime):
        in_utc = cell.dt.convert_time_zone("UTC") if stored.time_zone else cell
        return in_utc.dt.replace_time_zone(None)
    # The plain forms by themselves: to take a text apart takes many times as long.
    is_plain = cell.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}$")
    plain = (
        pl.when(is_plain)
        .then(cell)
        .str.replace("T", " ", literal=True)
        .str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    )
    other = pl.when(~is_plain).then(cell).map_batches(_iso_timestamps, return_dtype=_MOMENT)
    moment = pl.coalesce(plain, other)
    return pl.when(moment.dt.year().is_between(*_PLAUSIBLE_YEARS)).then(moment)


def _iso_timestamps(cells: pl.Series) -> pl.Series:
    if cells.null_count() == len(cells):  # as a rule
        return pl.repeat(None, len(cells), dtype=_MOMENT, eager=True).alias(cells.name)
    return cells.to_frame("cell").select(_iso_timestamp(pl.col("cell"))).to_series()


def _iso_timestamp(cell: pl.Expr) -> pl.Expr:
    """ISO 8601 puts a T where others put a space; a fraction and an offset from UTC may follow.  A
    date means its first moment."""
    parts = cell.str.extract_groups(
        r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)"
        r"(?:(Z)|([+-])(0[0-9]|1[0-4]):([0-5][0-9]))?)?$"
    )
    time = parts.struct.field("2").fill_null("00:00:00")
    local = pl.concat_str(parts.struct.field("1"), time, separator=" ")
    moment = local.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    hours, minutes = (parts.struct.field(n).cast(pl.Int64) for n in ("5", "6"))
    offset = pl.duration(hours=hours, minutes=minutes)
    return (
        pl.when(parts.struct.field("4") == "+")
        .then(moment - offset)
        .when(parts.struct.field("4") == "-")
        .then(moment + offset)
        .otherwise(moment)
    )


_PLAIN_MOMENT = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}[ T](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}")


def _plain_timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(of_form(_PLAIN_MOMENT, text))
    first, last = _PLAUSIBLE_YEARS
    if not first <= moment.year <= last:
        raise ValueError
    return moment


_PLAIN_NUMBER = re.compile(r"[0-9]{1,17}(?:\.[0-9]{1,20})?")  # below all limits


def _plain_number(text: str) -> float:
    return float(of_form(_PLAIN_NUMBER, text))


def plain_text(text: str) -> str:
    """For `Kind.plain`."""
    if not text or text != text.strip():  # which takes away all that polars does, and more
        raise ValueError
    return text


def of_form(pattern: re.Pattern[str], text: str) -> str:
    """The text, if all of it has this form."""
    if pattern.fullmatch(text) is None:
        raise ValueError
    return text


def _finite(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    number = cell.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _number_text(text: pl.Expr) -> pl.Expr:
    """Writers of CSV files write a missing number as NaN."""
    stripped = _stripped(text)
    return pl.when(stripped.str.to_lowercase() != "nan").then(stripped)


def _as_text(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return cell.cast(pl.String)


def _label_text(text: pl.Expr) -> pl.Expr:
    """Truth values are words in a CSV file, in capitals in those of spreadsheets."""
    return _stripped(text).str.to_lowercase().replace(["true", "false"], ["1", "0"])


def _label(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
    number = cell.cast(pl.Float64, strict=False)
    return pl.when(number.is_in([0.0, 1.0])).then(number)


TEXT = Kind("text", pl.String(), plain=plain_text)
ID = Kind(
    "id (text or a whole number)",
    pl.String(),
    _as_text,
    None,
    lambda s: s.is_integer(),
    plain=plain_text,
)
CATEGORY = Kind(
    "category (text, a whole number, true or false)",
    pl.String(),
    _as_text,
    None,
    lambda stored: stored.is_integer() or isinstance(stored, pl.Boolean),
    plain=plain_text,
)
REPEATED_TEXT = Kind("text (repeated)", pl.Categorical(), plain=plain_text)
TIMESTAMP = Kind(
    "date and time (YYYY-MM-DD hh:mm:ss)",
    pl.Datetime("us"),
    _timestamp,
    "an unparsable date (expected YYYY-MM-DD hh:mm:ss)",
    lambda stored: isinstance(stored, (pl.Datetime, pl.Date)),
    plain=_plain_timestamp,
)
NUMBER = Kind(
    "number",
    pl.Float64(),
    _finite,
    "no finite number",
    lambda stored: stored.is_numeric(),
    _number_text,
    plain=_plain_number,
)
AMOUNT = Kind(
    "amount",
    pl.Float64(),
    _finite,
    "no number",
    lambda stored: stored.is_numeric(),
    wrong=(
        ("a negative amount", lambda value: value < 0),
        # ISO 20022 has none either; sums of the largest numbers would have no logarithm.
        ("an amount of 10^18 or more", lambda value: value >= _NO_AMOUNT),
    ),
    plain=_plain_number,
)
LABEL = Kind(
    "label (0 or 1)",
    pl.Int8(),
    _label,
    "a label other than 0 and 1",
    lambda stored: stored.is_numeric() or isinstance(stored, pl.Boolean),
    _label_text,
)


def choice(what: str, choices: Sequence[str], *, width: int = 0) -> Kind:
    """One of some texts; numbers get zeros in front until they have `width` digits."""

    def value(cell: pl.Expr, stored: pl.DataType) -> pl.Expr:
        return cell.cast(pl.String).str.zfill(width).cast(pl.Enum(choices), strict=False)

    return Kind(
        what,
        pl.Enum(choices),
        value,
        f"an unknown {what} (known: {', '.join(choices)})",
        lambda stored: stored.is_integer(),
    )
