"""Conditions as expressions over the columns of a table.

Text compares with text, numbers with numbers, true and false with themselves, dates and moments
with both; moments with a time zone count as UTC.  A value that is null, NaN or blank is missing.

A column of text (all columns of a CSV file are) can be compared with numbers, dates, true and false
if every value in it is one.  So the class of a record never depends on other records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from operator import ge, gt, le, lt
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.rules.conditions import Condition, kind_of, moment_of

_TEXT = (pl.String, pl.Categorical, pl.Enum)
_WIDE = (pl.UInt64, pl.Int128)  # compared as Float64, as text and fractions are
_EXACT = 2**53  # whole numbers up to here are different as Float64
_NONE = {"number": "no number", "truth": "neither true nor false", "date": "no date"}
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "at_least": ge,
    "above": gt,
    "at_most": le,
    "below": lt,
}


class Cells:
    """The columns of a table as rules compare them, each converted once."""

    def __init__(self, table: pl.DataFrame) -> None:
        self._table = table
        self._converted: dict[str, pl.Series] = {}

    def frame(self) -> pl.DataFrame:
        """What the expressions of `holds` are about, so far."""
        return pl.DataFrame(self._converted)

    def holds(self, condition: Condition) -> pl.Expr:
        """Whether a condition is true of a row; never null."""
        held = [self._part(condition.column, *asked) for asked in condition.asked.items()]
        return pl.all_horizontal(held).fill_null(value=False)

    def _part(self, name: str, key: str, value: Any) -> pl.Expr:
        there = self._cells(name)
        if key == "missing":
            cell = pl.col(there.name)
            return cell.is_null() if value else cell.is_not_null()
        values = list(value) if isinstance(value, tuple) else [value]
        cells = self._comparable(name, values[0])
        if isinstance(cells.dtype, pl.Null):  # no row has a value
            return pl.col(cells.name).is_not_null()
        if misfits := [one for one in values if not _fits(cells.dtype, one)]:
            raise DataError(_cannot(name, there.dtype, misfits[0]))
        column, members = _alike(pl.col(cells.name), cells.dtype, values)
        if key in _ORDER:
            compared: pl.Expr = _ORDER[key](column, pl.lit(members[0], members.dtype))
            return compared
        among = column.is_in(members.implode())
        return ~among if key == "not_in" else among

    def _cells(self, name: str) -> pl.Series:
        if name not in self._converted:
            column, dtype = pl.col(name), self._table.schema[name]
            self._converted[name] = self._table.select(_cleaned(column, dtype)).to_series()
        return self._converted[name]

    def _comparable(self, name: str, value: Any) -> pl.Series:
        """The cells; text as values of the same kind as this one."""
        cells, kind = self._cells(name), kind_of(value)
        if not isinstance(cells.dtype, pl.String) or kind == "text":
            return cells
        key = f"{name}\x1f{kind}"
        if key not in self._converted:
            converted = cells.to_frame().select(_converted(pl.col(name), kind)).to_series()
            wrong = (converted.is_null() & cells.is_not_null()).arg_max()
            if converted.null_count() > cells.null_count() and wrong is not None:
                reason = f"data row {wrong + 1} has {_NONE[kind]}"
                raise DataError(f"{_cannot(name, cells.dtype, value)}: {reason}")
            self._converted[key] = converted.alias(key)
        return self._converted[key]


def _cleaned(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The values, null where they are missing."""
    if dtype.is_float():
        return column.fill_nan(None)
    if not isinstance(dtype, _TEXT):
        return column
    text = column.cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(["", "NaN", "nan"])).then(text).alias(column.meta.output_name())


def _converted(text: pl.Expr, kind: str) -> pl.Expr:
    """Text as values of another kind; null where it is none."""
    if kind == "number":
        return text.cast(pl.Float64, strict=False)
    if kind == "truth":
        lower = text.str.to_lowercase()
        return lower.replace_strict({"true": True, "false": False}, default=None)
    spaced = text.str.replace("T", " ", literal=True).str.replace("Z$", "+00:00")
    forms = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f%:z")
    *local, zoned = (spaced.str.to_datetime(form, time_unit="us", strict=False) for form in forms)
    return pl.coalesce(*local, zoned.dt.replace_time_zone(None))


def _cannot(name: str, dtype: pl.DataType, value: Any) -> str:
    return f"column {name!r} ({dtype}) cannot be compared with {_described(value)}"


def _fits(dtype: pl.DataType, value: Any) -> bool:
    if isinstance(value, bool) or isinstance(dtype, pl.Boolean):
        return isinstance(value, bool) and isinstance(dtype, pl.Boolean)
    if isinstance(value, str):
        return isinstance(dtype, _TEXT) or (_is_moment(dtype) and moment_of(value) is not None)
    if isinstance(value, date):
        return _is_moment(dtype)
    return dtype.is_numeric() and (_is_whole(dtype) or _is_exact(value))


def _is_whole(dtype: pl.DataType) -> bool:
    return dtype.is_integer() and not isinstance(dtype, _WIDE)


def _is_exact(value: int | float) -> bool:
    """Whether no other whole number is taken for it where numbers are compared as Float64."""
    return isinstance(value, float) or -_EXACT < value < _EXACT


def _is_moment(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.Date, pl.Datetime))


def _alike(column: pl.Expr, dtype: pl.DataType, values: list[Any]) -> tuple[pl.Expr, pl.Series]:
    """The column and the values in one type."""
    if isinstance(dtype, _TEXT):
        return column.cast(pl.String), pl.Series(values, dtype=pl.String)
    if isinstance(dtype, pl.Boolean):
        return column, pl.Series(values, dtype=pl.Boolean)
    if _is_moment(dtype):
        if isinstance(dtype, pl.Datetime) and dtype.time_zone:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        moments = [_moment(value) for value in values]
        return column.cast(pl.Datetime("us")), pl.Series(moments, dtype=pl.Datetime("us"))
    whole = all(isinstance(value, int) for value in values)
    if whole and _is_whole(dtype):
        return column.cast(pl.Int64), pl.Series(values, dtype=pl.Int64)
    floats = [float(value) for value in values]
    return column.cast(pl.Float64), pl.Series(floats, dtype=pl.Float64)


def _moment(value: Any) -> datetime:
    """Without time zone, in UTC."""
    moment: Any = moment_of(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _described(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}" + (
                "" if _is_exact(value) else ", which has too many digits"
            )
        case str():
            return f"the text {value!r}"
    return f"the date {value}"
