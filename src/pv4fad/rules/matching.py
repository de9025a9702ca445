"""A condition as an expression over the columns of a table.

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
_DTYPES: dict[str, pl.DataType] = {
    "number": pl.Float64(),
    "truth": pl.Boolean(),
    "date": pl.Datetime("us"),
}
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "at_least": ge,
    "above": gt,
    "at_most": le,
    "below": lt,
}


def holds(condition: Condition, frame: pl.DataFrame) -> pl.Expr:
    """Whether a condition is true of a row of the frame; never null."""
    held = [_part(condition, frame, key, value) for key, value in condition.asked.items()]
    return pl.all_horizontal(held).fill_null(value=False)


def _part(condition: Condition, frame: pl.DataFrame, key: str, value: Any) -> pl.Expr:
    dtype = frame.schema[condition.column]
    cells = _cells(pl.col(condition.column), dtype)
    if key == "missing":
        return cells.is_null() if value else cells.is_not_null()
    if isinstance(dtype, pl.Null):  # no row has a value
        return pl.repeat(value=False, n=pl.len())
    values = list(value) if isinstance(value, tuple) else [value]
    kind = kind_of(values[0])
    if isinstance(dtype, _TEXT) and kind != "text":
        converted = _converted(cells, kind)
        wrong = frame.select((cells.is_not_null() & converted.is_null()).arg_true().first()).item()
        if wrong is not None:
            raise DataError(
                f"{_cannot(condition, dtype, values[0])}: data row {wrong + 1} has none"
            )
        cells, dtype = converted, _DTYPES[kind]
    if misfits := [one for one in values if not _fits(dtype, one)]:
        raise DataError(_cannot(condition, dtype, misfits[0]))
    cells, members = _alike(cells, dtype, values)
    if key in _ORDER:
        compared: pl.Expr = _ORDER[key](cells, pl.lit(members[0], members.dtype))
        return compared
    among = cells.is_in(members.implode())
    return ~among if key == "not_in" else among


def _cells(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The values, null where they are missing."""
    if dtype.is_float():
        return column.fill_nan(None)
    if not isinstance(dtype, _TEXT):
        return column
    text = column.cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(["", "NaN", "nan"])).then(text)


def _converted(text: pl.Expr, kind: str) -> pl.Expr:
    """Text as values of another kind; null where it is none."""
    if kind == "number":
        return text.cast(pl.Float64, strict=False)
    if kind == "truth":
        lower = text.str.to_lowercase()
        return lower.replace_strict({"true": True, "false": False}, default=None)
    spaced = text.str.replace("T", " ", literal=True)
    forms = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f")
    return pl.coalesce(spaced.str.to_datetime(form, time_unit="us", strict=False) for form in forms)


def _cannot(condition: Condition, dtype: pl.DataType, value: Any) -> str:
    return f"column {condition.column!r} ({dtype}) cannot be compared with {_described(value)}"


def _fits(dtype: pl.DataType, value: Any) -> bool:
    if isinstance(value, bool) or isinstance(dtype, pl.Boolean):
        return isinstance(value, bool) and isinstance(dtype, pl.Boolean)
    if isinstance(value, str):
        return isinstance(dtype, _TEXT) or (_is_moment(dtype) and moment_of(value) is not None)
    if isinstance(value, date):
        return _is_moment(dtype)
    return dtype.is_numeric()


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
    if whole and dtype.is_integer() and not isinstance(dtype, (pl.UInt64, pl.Int128)):
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
            return f"the number {value}"
        case str():
            return f"the text {value!r}"
    return f"the date {value}"
