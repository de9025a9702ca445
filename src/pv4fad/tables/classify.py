"""The class of each record by rules: one expression, the first rule that matches decides.

Text compares with text, numbers with numbers, true and false with themselves, dates and moments
with both; moments with a time zone count as UTC.  A value that is null or NaN is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from operator import ge, gt, le, lt
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.rules import Condition, Rules, moment_of
from pv4fad.tables.columns import is_text

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "at_least": ge,
    "above": gt,
    "at_most": le,
    "below": lt,
}


def classify(frame: pl.DataFrame, rules: Rules, classes: Sequence[str]) -> pl.Series:
    """The class of each row, as Enum of the classes; the first of them where no rule matches."""
    rules.check_classes(classes)
    rules.check_columns(frame.columns)
    decision = pl.lit(classes[0])
    for position, rule in reversed(list(enumerate(rules.rules))):
        try:
            matches = pl.all_horizontal(_holds(frame, condition) for condition in rule.all)
        except DataError as error:
            raise DataError(f"{rules.called(position)}: {error}") from None
        decision = pl.when(matches).then(pl.lit(rule.class_)).otherwise(decision)
    one_each = pl.repeat(0, pl.len())  # a literal alone would be one row
    kind = pl.Enum(classes)
    return frame.select(pl.when(one_each == 0).then(decision).cast(kind).alias("Class"))["Class"]


def _holds(frame: pl.DataFrame, condition: Condition) -> pl.Expr:
    """Whether the condition is true; never null."""
    column = pl.col(condition.column)
    dtype = frame.schema[condition.column]
    if dtype.is_float():
        column = column.fill_nan(None)
    held = [_part(column, dtype, key, value, condition) for key, value in condition.asked.items()]
    return pl.all_horizontal(held).fill_null(value=False)


def _part(
    column: pl.Expr, dtype: pl.DataType, key: str, value: Any, condition: Condition
) -> pl.Expr:
    if key == "missing":
        return column.is_null() if value else column.is_not_null()
    if isinstance(dtype, pl.Null):  # no row has a value
        return pl.repeat(value=False, n=pl.len())
    values = list(value) if isinstance(value, tuple) else [value]
    if wrong := [one for one in values if not _fits(dtype, one)]:
        raise DataError(
            f"column {condition.column!r} ({dtype}) cannot be compared with {_described(wrong[0])}"
        )
    cells, members = _alike(column, dtype, values)
    if key in _ORDER:
        compared: pl.Expr = _ORDER[key](cells, pl.lit(members[0], members.dtype))
        return compared
    among = cells.is_in(members.implode())
    return ~among if key == "not_in" else among


def _fits(dtype: pl.DataType, value: Any) -> bool:
    if isinstance(value, bool) or isinstance(dtype, pl.Boolean):
        return isinstance(value, bool) and isinstance(dtype, pl.Boolean)
    if isinstance(value, str):
        return is_text(dtype) or (_is_moment(dtype) and moment_of(value) is not None)
    if isinstance(value, date):
        return _is_moment(dtype)
    return dtype.is_numeric()


def _is_moment(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.Date, pl.Datetime))


def _alike(column: pl.Expr, dtype: pl.DataType, values: list[Any]) -> tuple[pl.Expr, pl.Series]:
    """The column and the values in one type."""
    if is_text(dtype):
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
