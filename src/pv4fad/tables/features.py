"""The lead's features of a table: numbers, categories, and what happened before.

    compute_features(schema, rows, history) → FeatureTable

Training gives the training rows as `rows`.  Scoring gives them as `history` and the new rows as
`rows`: features of the past then continue from the training rows, and categories have the numbers
that they had in training.

    numbers      the value
    categories   0 for the most common value of training, 1 for the next and so on, equally common
                 ones by name; one number more for all values that training did not have
    history      see `pv4fad.tables.history`

A missing value is NaN.  A schema can name a Python function that computes its features instead; it
gets the rows and the history, without labels.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError
from pv4fad.schema import Schema
from pv4fad.tables.earlier import Integers, column_codes
from pv4fad.tables.history import HistoryRows, history_features

MICROSECONDS_OF_A_DAY = 86_400_000_000


@dataclass(frozen=True)
class FeatureTable:
    """One row of numbers for each row of a table, in the same order."""

    names: tuple[str, ...]
    values: NDArray[np.float32]  # (rows, features), finite, or NaN where a value is missing


def compute_features(
    schema: Schema, rows: pl.DataFrame, history: pl.DataFrame | None = None
) -> FeatureTable:
    """The features of `rows`, which continue from the rows of `history`, in any order.

    Rows of `history` that are not earlier than a row are not seen by it.
    """
    if schema.rows.features is not None:
        label = schema.rows.label
        past = None if history is None else history.drop(label, strict=False)
        return _of_function(schema.rows.features, rows.drop(label, strict=False), past)
    training = rows if history is None else history
    before: dict[str, NDArray[Any]] = {}
    if schema.rows.history:
        parts = [rows] if history is None else [history, rows]
        for name, values in history_features(_history_rows(schema, parts)).items():
            before[name] = values[len(values) - rows.height :]
    return table_features(schema, rows, known_categories(schema, training), before)


def known_categories(schema: Schema, training: pl.DataFrame) -> dict[str, list[str]]:
    """By column: the values of training, the most common first, equally common ones by name."""
    return {name: _by_frequency(_column(training, name)) for name in schema.rows.categories}


def table_features(
    schema: Schema,
    rows: pl.DataFrame,
    categories: Mapping[str, Sequence[str]],
    past: Mapping[str, NDArray[Any]],
) -> FeatureTable:
    """The features of rows, with the numbers of categories and what happened before them."""
    features: dict[str, NDArray[Any]] = {}
    for name in schema.rows.numbers:
        features[name] = _number(_column(rows, name))
    for name in schema.rows.categories:
        features[name] = _category(_column(rows, name), categories[name])
    if taken := [name for name in past if name in features]:
        raise ParameterError(
            f"rows: the column {taken[0]!r} has the name of a history feature; rename one of the "
            "column and the side"
        )
    features |= past
    stacked = side_by_side(list(features.values()), rows.height)
    return _table(tuple(features), stacked, rows.height, "features")


def _column(rows: pl.DataFrame, name: str) -> pl.Series:
    if name not in rows.columns:
        raise DataError(f"the table has no column {name!r}, which the schema names")
    return rows[name]


def _number(column: pl.Series) -> NDArray[np.float64]:
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise DataError(f"column {column.name!r} must have numbers, and has {column.dtype}")
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _by_frequency(column: pl.Series) -> list[str]:
    counts = column.cast(pl.String).drop_nulls().alias("value").value_counts(name="rows")
    return counts.sort(["rows", "value"], descending=[True, False])["value"].to_list()


def _category(column: pl.Series, known: Sequence[str]) -> NDArray[np.float64]:
    codes = column.cast(pl.String).replace_strict(
        pl.Series(known, dtype=pl.String),
        pl.arange(len(known), eager=True),
        default=len(known),
        return_dtype=pl.Float64,
    )
    return codes.set(column.is_null(), np.nan).to_numpy()


def _history_rows(schema: Schema, parts: list[pl.DataFrame]) -> HistoryRows:
    times = np.concatenate([microseconds(_column(part, schema.rows.time)) for part in parts])
    instants, rank = np.unique(times, return_inverse=True)
    days = instants / MICROSECONDS_OF_A_DAY
    event = None
    if schema.rows.event is not None:
        event = _codes(parts, schema.rows.event)
        # A row without one is an event of its own.
        alone = np.arange(len(event)) + event.max(initial=0) + 1
        event = np.where(event == 0, alone, event)
    ids = {name: _codes(parts, side.id) for name, side in schema.sides.items()}
    return HistoryRows(rank.astype(np.int64), days, event, ids)


def microseconds(column: pl.Series) -> Integers:
    """Times; DataError if the column has none."""
    if column.dtype not in (pl.Date, pl.Datetime):
        raise DataError(f"column {column.name!r} must have dates or times, and has {column.dtype}")
    if column.has_nulls():
        raise DataError(f"column {column.name!r}: every row must have a time")
    if column.dtype != pl.Datetime("us"):
        column = column.dt.epoch("us")
    return column.to_numpy().view(np.int64)


def _codes(parts: list[pl.DataFrame], name: str) -> Integers:
    texts = pl.concat([_column(part, name).cast(pl.String) for part in parts])
    return column_codes(texts)


def _of_function(path: str, rows: pl.DataFrame, history: pl.DataFrame | None) -> FeatureTable:
    where = f"rows.features: {path}"
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError, TypeError) as error:
        raise ParameterError(f"{where}: the module cannot be imported: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ParameterError(f"{where}: the module has no function {name!r}")
    found = function(rows, history)
    if isinstance(found, pl.DataFrame):
        try:
            columns = {column.name: _number(column) for column in found}
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        values = side_by_side(list(columns.values()), found.height)
        return _table(tuple(columns), values, rows.height, where)
    if isinstance(found, FeatureTable):
        return _table(found.names, found.values, rows.height, where)
    raise DataError(
        f"{where}: must return a FeatureTable or a polars DataFrame, not {type(found).__name__}"
    )


def side_by_side(columns: Sequence[NDArray[Any]], n_rows: int) -> NDArray[np.float32]:
    """(rows, columns); what is too large for a float32 is infinite."""
    values = empty_table(n_rows, len(columns))
    for position, column in enumerate(columns):
        put_column(values, position, column)
    return values


def empty_table(n_rows: int, n_columns: int) -> NDArray[np.float32]:
    """To be filled.  A column is in one piece: most of what reads features reads columns."""
    return np.empty((n_rows, n_columns), np.float32, order="F")


def put_column(values: NDArray[np.float32], position: int, column: NDArray[Any]) -> None:
    """What is too large for a float32 is infinite."""
    with np.errstate(over="ignore"):
        values[:, position] = column


def _table(names: Sequence[str], values: NDArray[Any], n_rows: int, where: str) -> FeatureTable:
    if not len(names):
        raise DataError(f"{where}: there is no feature")
    if repeated := [name for position, name in enumerate(names) if name in names[:position]]:
        raise DataError(f"{where}: the name {repeated[0]!r} is there twice")
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise DataError(f"{where}: values must be an array of numbers")
    if values.shape != (n_rows, len(names)):
        raise DataError(
            f"{where}: values have the shape {values.shape}, for {n_rows} rows and "
            f"{len(names)} names it must be {(n_rows, len(names))}"
        )
    with np.errstate(over="ignore"):
        as_float32 = values.astype(np.float32, copy=False)
    if (infinite := np.argwhere(np.isinf(as_float32))).size:
        row, column = infinite[0]
        raise DataError(
            f"{where}: {names[column]!r} is infinite or too large in row {row + 1}; leave it empty "
            "where it is missing"
        )
    return FeatureTable(tuple(names), as_float32)
