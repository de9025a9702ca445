"""What is known about live payments, computed from all payments before them.

The same code as for files, over the whole history each time: exact, and as slow as the history is
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from pv4fad.lead.rows import NewRows, new_rows
from pv4fad.schema import Schema
from pv4fad.service.intake import payment_columns
from pv4fad.tables.features import FeatureTable


class WholeHistory:
    """`history`: the transactions that the run was trained on, with their labels."""

    def __init__(
        self, schema: Schema, history: pl.DataFrame, decided: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """`decided`: payments that the journal has, as `intake.plain` wrote them."""
        self._schema, self._history = schema, history
        columns = payment_columns(schema)
        rows = list(decided)
        self._since = pl.DataFrame(
            {column.name: [row[column.name] for row in rows] for column in columns},
            schema={column.name: _plain_type(column.dtype) for column in columns},
        ).with_columns(_typed(column.name, column.dtype) for column in columns)

    def take(self, payments: pl.DataFrame) -> NewRows:
        """A payment that came before and was not decided counts once."""
        id_ = self._schema.rows.id
        known = self._since.filter(~pl.col(id_).is_in(payments[id_].implode()))
        self._since = pl.concat([known, payments.select(known.columns)], how="vertical_relaxed")
        return _last(new_rows(self._schema, self._since, self._history), payments.height)


def _last(rows: NewRows, n: int) -> NewRows:
    features = FeatureTable(rows.features.names, rows.features.values[-n:])
    return replace(
        rows,
        rows=rows.rows.tail(n),
        features=features,
        key_of=rows.key_of[-n:],
        is_first=rows.is_first[-n:],
        stratum=rows.stratum[-n:],
        hit=rows.hit[-n:],
    )


def _plain_type(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if dtype.is_temporal() or dtype == pl.Categorical else dtype


def _typed(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return column.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit=dtype.time_unit)
    return column.str.to_date() if isinstance(dtype, pl.Date) else column.cast(dtype)
