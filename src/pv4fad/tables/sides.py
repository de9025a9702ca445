"""Who stands on each side of the lead's rows, and who has dealt with whom before.

    sides = Sides(schema, rows)
    sides.side_keys()         (Holder, Id) of each row, one table per side
    sides.first_dealings()    whether each row belongs to the first event between its accounts

Ids, events and times become numbers, each once, whatever is asked.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.schema import Schema
from pv4fad.tables.earlier import Integers, column_codes, group_codes, least_of_group, time_ranks

KEY_COLUMNS = {"Holder": pl.String, "Id": pl.String}


class Sides:
    """Of some rows."""

    def __init__(self, schema: Schema, rows: pl.DataFrame) -> None:
        self.schema = schema
        self.rows = rows

    @cached_property
    def account(self) -> Integers:
        """(rows, sides): the number of the bare id, the same on all sides."""
        ids = [self.rows[side.id].cast(pl.String) for side in self.schema.sides.values()]
        return column_codes(pl.concat([one.rename("Id") for one in ids])).reshape(len(ids), -1).T

    @cached_property
    def _time(self) -> Integers:
        return time_ranks(self.rows[self.schema.rows.time])

    @cached_property
    def _event(self) -> Integers:
        event = self.schema.rows.event
        return np.arange(self.rows.height) if event is None else column_codes(self.rows[event])

    @cached_property
    def _legs(self) -> tuple[Integers, Integers]:
        return first_and_last(self._event, self._time, self.rows[self.schema.rows.id])

    def side_keys(self, start: int = 0) -> list[pl.DataFrame]:
        """(Holder, Id) of each row from `start` on, one table per side; Holder is null where it is
        unknown.

        A holder that is taken from the first or last row of its event is looked up among all of
        these rows: they should have the earlier ones of the same events.
        """
        found = []
        for side in self.schema.sides.values():
            ids = self.rows[side.id][start:].cast(pl.String)
            if side.holder is None:
                holder = pl.repeat(None, len(ids), dtype=pl.String, eager=True)
            elif side.leg is None:
                holder = self.rows[side.holder][start:]
            else:
                first, last = self._legs
                leg = first if side.leg == "first" else last
                holder = self.rows[side.holder].gather(leg[self._event[start:]])
            found.append(pl.DataFrame({"Holder": holder.cast(pl.String), "Id": ids}))
        return found

    def first_dealings(self) -> NDArray[np.bool_]:
        """Whether each row belongs to the first event between its accounts.

        First is an event that no other one of the same accounts began strictly before.
        """
        accounts = group_codes(*self.account.T)
        began = least_of_group(group_codes(accounts, self._event), self._time)
        result: NDArray[np.bool_] = began == least_of_group(accounts, self._time)
        return result


def structural_columns(schema: Schema) -> list[str]:
    """The columns that are looked at."""
    of_sides = (name for side in schema.sides.values() for name in (side.id, side.holder))
    names = (schema.rows.id, schema.rows.time, schema.rows.event, *of_sides)
    return list(dict.fromkeys(name for name in names if name is not None))


def first_and_last(event: Integers, time: Integers, ids: pl.Series) -> tuple[Integers, Integers]:
    """By number of an event: its first row and its last one; of rows at the same time, by id."""
    key = event * (int(time.max(initial=0)) + 1) + time
    order = np.argsort(key)
    in_order = key[order]
    again = np.flatnonzero(in_order[1:] == in_order[:-1])
    tied = np.union1d(again, again + 1)
    if len(tied):
        rows = pl.DataFrame({"key": in_order[tied], "row": order[tied]})
        rows = rows.with_columns(id=ids.gather(order[tied])).sort("key", "id")
        order[tied] = rows["row"]
    of_event = event[order]
    changes, outer = of_event[1:] != of_event[:-1], np.ones(min(len(order), 1), np.bool_)
    n_events = int(event.max(initial=-1)) + 1
    first, last = np.zeros(n_events, np.int64), np.zeros(n_events, np.int64)
    for end, parts in ((first, (outer, changes)), (last, (changes, outer))):
        is_end = np.concatenate(parts)
        end[of_event[is_end]] = order[is_end]
    return first, last
