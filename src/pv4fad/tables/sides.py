"""Who stands on each side of the lead's rows, and who has dealt with whom before."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.schema import Schema

KEY_COLUMNS = {"Holder": pl.String, "Id": pl.String}


def side_keys(schema: Schema, rows: pl.DataFrame) -> list[pl.DataFrame]:
    """(Holder, Id) of each row, one table per side; Holder is null where it is unknown.

    A holder that is taken from the first or last row of its event is looked up among these rows:
    give the earlier rows of the same events as well.
    """
    by_event = _holders_by_event(schema, rows)
    found = []
    for name, side in schema.sides.items():
        holder: pl.Expr | pl.Series = pl.lit(None, pl.String)
        if name in by_event.columns:
            holder = by_event[name]
        elif side.holder is not None:
            holder = pl.col(side.holder).cast(pl.String)
        found.append(rows.select(Holder=holder, Id=pl.col(side.id).cast(pl.String)))
    return found


def first_dealings(schema: Schema, rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether each row belongs to the first event between its accounts.

    First is an event that no other one of the same accounts began strictly before.
    """
    accounts = [side.id for side in schema.sides.values()]
    time, event = pl.col(schema.rows.time), schema.rows.event
    begin = time if event is None else time.min().over(*accounts, event)
    return rows.select(begin == time.min().over(*accounts)).to_series().to_numpy()


def structural_columns(schema: Schema) -> list[str]:
    """The columns that these functions look at."""
    of_sides = (name for side in schema.sides.values() for name in (side.id, side.holder))
    names = (schema.rows.id, schema.rows.time, schema.rows.event, *of_sides)
    return list(dict.fromkeys(name for name in names if name is not None))


def _holders_by_event(schema: Schema, rows: pl.DataFrame) -> pl.DataFrame:
    """For each row the holders of sides that take them from the first or last row of the event."""
    legs = {name: side for name, side in schema.sides.items() if side.leg is not None}
    event = schema.rows.event
    if not legs or event is None:
        return pl.DataFrame()
    holders = {
        name: pl.col(str(side.holder)).first()
        if side.leg == "first"
        else pl.col(str(side.holder)).last()
        for name, side in legs.items()
    }
    in_order = [event, schema.rows.time, schema.rows.id]
    columns = dict.fromkeys([*in_order, *(str(side.holder) for side in legs.values())])
    events = (
        rows.lazy()
        .select(list(columns))
        .sort(in_order)
        .group_by(event, maintain_order=True)
        .agg(**holders)
    )
    looked_up = rows.lazy().select(event).join(events, on=event, how="left", maintain_order="left")
    return looked_up.select(pl.col(name).cast(pl.String) for name in legs).collect()
