"""The features of tables (`pv4fad.tables.features`), of rows that arrive a few at a time.

Categories have the numbers of the rows that the state begins with, those of training.  What
happened before (`pv4fad.tables.history`) are sums over strictly earlier entries:

    ROWS   side, id           every row                 OWN        side, id, event    every row
    FIRST  side, id           where a combination of    OWN_FIRST  side, id, event    the same
                              ids began
    AGAIN  side, id, event    where a combination that began in this event was again, in another
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.schema import Schema
from pv4fad.tables.earlier import Integers
from pv4fad.tables.features import (
    MICROSECONDS_OF_A_DAY,
    FeatureTable,
    known_categories,
    table_features,
)
from pv4fad.tables.incremental.arrivals import Arrived
from pv4fad.tables.incremental.at_rest import Arrays, joined, of_text, part_of, to_text
from pv4fad.tables.incremental.dealings import Beginnings
from pv4fad.tables.incremental.numbering import keys
from pv4fad.tables.incremental.timed_sums import FOREVER, NEVER, TimedSums

_ROWS, _OWN, _FIRST, _OWN_FIRST, _AGAIN = range(5)
_N_KINDS = 5


class TableFeatures:
    """What the features of rows to come need to know of those so far."""

    def __init__(self, schema: Schema, categories: Mapping[str, Sequence[str]]) -> None:
        """`categories`: the `known_categories` of training."""
        self._schema = schema
        self._categories = categories
        self._rows, self._beginnings = TimedSums(0), TimedSums(1)

    @classmethod
    def trained(cls, schema: Schema, training: pl.DataFrame) -> Self:
        """Of a schema whose features are not computed by a function; nothing is added yet."""
        return cls(schema, known_categories(schema, training))

    def require(self, rows: pl.DataFrame) -> None:
        """DataError if rows that are about to be taken cannot have features."""
        table_features(self._schema, rows, self._categories, {"": np.zeros(rows.height)})

    def add(self, rows: pl.DataFrame, arrived: Arrived) -> None:
        """Rows that `Arrivals` has just taken."""
        if not self._schema.rows.history:
            return
        sides = range(self._schema.n_sides)
        places = [_key(_ROWS, side, arrived.account[:, side]) for side in sides]
        if arrived.legs is not None:
            event = arrived.legs.event
            places += [_key(_OWN, side, arrived.account[:, side], event) for side in sides]
        self._rows.add(np.concatenate(places), np.tile(arrived.time, len(places)))
        if len(sides) > 1:
            self._add_beginnings(arrived)

    def take(self, rows: pl.DataFrame, arrived: Arrived) -> FeatureTable:
        """Add rows; their features."""
        self.add(rows, arrived)
        past: dict[str, NDArray[Any]] = {}
        for side, name in enumerate(self._schema.sides if self._schema.rows.history else ()):
            past[f"{name}_rows_before"] = self._rows_before(side, arrived, arrived.time)
            past[f"{name}_days_since"] = self._days_since(side, arrived)
            if self._schema.n_sides > 1:
                past[f"{name}_others_before"] = self._others_before(side, arrived)
        if past and self._schema.n_sides > 1:
            past["first_dealing"] = arrived.is_new.astype(np.float64)
        return table_features(self._schema, rows, self._categories, past)

    def _rows_before(self, side: int, arrived: Arrived, time: Integers) -> Integers:
        """Rows of the same id in other events."""
        account = arrived.account[:, side]
        found = self._rows.count(_key(_ROWS, side, account), time)
        if arrived.legs is not None:
            found -= self._rows.count(_key(_OWN, side, account, arrived.legs.event), time)
        return found

    def _days_since(self, side: int, arrived: Arrived) -> NDArray[np.float64]:
        account = _key(_ROWS, side, arrived.account[:, side])
        last, asked = arrived.time.copy(), np.arange(len(account))
        while len(asked):
            last[asked] = self._rows.last(account[asked], last[asked])
            if arrived.legs is None:
                break
            # Where all rows at this time are of the own event, the one before may not be.
            at = np.where(last == NEVER, 0, last)
            none = self._rows_before(side, arrived, at) == self._rows_before(side, arrived, at + 1)
            asked = asked[none[asked] & (last[asked] != NEVER)]
        days = arrived.time / MICROSECONDS_OF_A_DAY
        return np.where(last == NEVER, np.nan, days - last / MICROSECONDS_OF_A_DAY)

    def _others_before(self, side: int, arrived: Arrived) -> Integers:
        """Combinations of the same id that rows of other events have.

        One that began in the own event counts from where it was again, in another.
        """
        account, time = arrived.account[:, side], arrived.time
        (found,) = self._beginnings.sums(_key(_FIRST, side, account), time)
        if arrived.legs is not None:
            for kind, sign in ((_OWN_FIRST, -1), (_AGAIN, 1)):
                key = _key(kind, side, account, arrived.legs.event)
                found = found + sign * self._beginnings.sums(key, time)[0]
        return np.asarray(found)

    def _add_beginnings(self, arrived: Arrived) -> None:
        changed = arrived.changed
        account = arrived.account[changed.row]
        for beginnings, sign in ((changed.before, -1), (changed.now, 1)):
            known = beginnings.began != FOREVER
            self._put(account[known], beginnings.at(known), sign, events=arrived.legs is not None)

    def _put(self, account: Integers, beginnings: Beginnings, sign: int, *, events: bool) -> None:
        """Where combinations of ids began, on all sides."""
        key, time = [], []
        again = beginnings.again != FOREVER
        for side, ids in enumerate(account.T):
            key.append(_key(_FIRST, side, ids))
            time.append(beginnings.began)
            if events:
                key.append(_key(_OWN_FIRST, side, ids, beginnings.event))
                key.append(_key(_AGAIN, side, ids[again], beginnings.event[again]))
                time += [beginnings.began, beginnings.again[again]]
        keys_, times = np.concatenate(key), np.concatenate(time)
        self._beginnings.add(keys_, times, np.full(len(keys_), sign))

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        parts = {"rows": self._rows.to_arrays(), "beginnings": self._beginnings.to_arrays()}
        return joined(parts) | {"categories": of_text(json.dumps(self._categories))}

    @classmethod
    def from_arrays(cls, schema: Schema, arrays: Arrays) -> Self:
        found = cls(schema, json.loads(to_text(arrays["categories"])))
        found._rows = TimedSums.from_arrays(0, part_of(arrays, "rows"))
        found._beginnings = TimedSums.from_arrays(1, part_of(arrays, "beginnings"))
        return found


def _key(kind: int, side: int, account: Integers, event: Integers | int = 0) -> Integers:
    return keys(_N_KINDS * side + kind, account, event)
