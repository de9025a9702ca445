"""What arrives, in numbers: who deals with whom in which event, and what that changes.

`Arrivals` is the part of the state that features and routing share.  Rows are as they are when read
and checked (`pv4fad.tables.reading`): each has an id, a time, an event, an id on every side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.schema import Schema
from pv4fad.tables.earlier import Integers
from pv4fad.tables.features import microseconds
from pv4fad.tables.incremental.at_rest import Arrays, joined, of_text, part_of, to_text
from pv4fad.tables.incremental.dealings import Changed, Dealings
from pv4fad.tables.incremental.legs import FirstLegs, Legs
from pv4fad.tables.incremental.numbering import ByNumber, Numbering

_NO_HOLDER = -1
_NUMBERINGS = ("accounts", "events", "dealings", "others")


@dataclass(frozen=True)
class Arrived:
    """A batch of rows."""

    time: Integers  # microseconds
    account: Integers
    """(rows, sides): numbers of ids, the same on all sides."""
    is_first: NDArray[np.bool_]
    """As `pv4fad.tables.sides.Sides.first_dealings`."""
    is_new: NDArray[np.bool_]
    """Whether the ids have no strictly earlier row in another event."""
    changed: Changed
    """Dealings that the batch made begin, or begin earlier."""
    legs: ArrivedLegs | None
    """None: every row is an event of its own."""


@dataclass(frozen=True)
class ArrivedLegs:
    """Of a batch of rows: the events that they belong to."""

    event: Integers
    began: Integers
    """By row: the time of the first row of its event, as far as its rows are known."""
    rows: slice
    """The numbers of the rows, in the order of arrival."""
    changed: FirstLegs
    """Events that the batch made begin, or begin with another row."""


class Arrivals:
    """What is known of all rows so far."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.n_rows = 0
        self._numberings = {name: Numbering() for name in _NUMBERINGS}
        self._dealings, self._legs = Dealings(), Legs()
        self._holder = {name: ByNumber(_NO_HOLDER) for name in _sides_with_legs(schema)}
        """By side and row."""
        self._holders: dict[str, int] = {}

    @property
    def n_accounts(self) -> int:
        return len(self._numberings["accounts"])

    def add(self, rows: pl.DataFrame) -> Arrived:
        """Take rows: they and all that follow know them."""
        schema = self._schema
        ids = [side.id for side in schema.sides.values()]
        _require_values(rows, [schema.rows.id, schema.rows.time, schema.rows.event, *ids])
        time = microseconds(rows[schema.rows.time])
        numbers = self._numberings["accounts"].of_texts(*(rows[name] for name in ids))
        dealing = self._combination(numbers)
        legs = None if schema.rows.event is None else self._add_legs(rows, time)
        event = None if legs is None else legs.event
        changed = self._dealings.add(dealing, event, time)
        self.n_rows += rows.height
        return Arrived(
            time,
            np.stack(numbers, axis=1),
            self._dealings.is_first(dealing, event, time),
            self._dealings.is_new(dealing, event, time),
            changed,
            legs,
        )

    def side_keys(self, rows: pl.DataFrame, arrived: Arrived) -> list[list[tuple[str | None, str]]]:
        """As the function of the same name, of rows just added: (holder, id) by side and row."""
        found: list[list[tuple[str | None, str]]] = []
        names = [*self._holders, None]  # None at -1
        for name, side in self._schema.sides.items():
            holders: list[str | None] = [None] * rows.height
            if name in self._holder and arrived.legs is not None:
                ends = self._legs.first if side.leg == "first" else self._legs.last
                numbers = self._holder[name].values[ends(arrived.legs.event)]
                holders = [names[number] for number in numbers.tolist()]
            elif side.holder is not None:
                holders = rows[side.holder].cast(pl.String).to_list()
            found.append(list(zip(holders, rows[side.id].cast(pl.String).to_list(), strict=True)))
        return found

    def _combination(self, numbers: list[Integers]) -> Integers:
        """One number for the ids of all sides."""
        combined = numbers[0]
        for number in numbers[1:-1]:
            combined = self._numberings["others"].of_pairs(combined, number)
        if len(numbers) > 1:
            combined = self._numberings["dealings"].of_pairs(combined, numbers[-1])
        return combined

    def _add_legs(self, rows: pl.DataFrame, time: Integers) -> ArrivedLegs:
        names = self._schema.rows
        (event,) = self._numberings["events"].of_texts(rows[str(names.event)])
        new = slice(self.n_rows, self.n_rows + rows.height)
        for name, column in self._holder.items():
            texts = rows[str(self._schema.sides[name].holder)].cast(pl.String).to_list()
            number = {
                text: self._holders.setdefault(text, len(self._holders))
                for text in dict.fromkeys(texts)
                if text is not None
            }
            found = np.fromiter((number.get(text, _NO_HOLDER) for text in texts), np.int64)
            column.reach(new.stop)[new] = found
        changed = self._legs.add(event, time, rows[names.id].cast(pl.String).to_list())
        return ArrivedLegs(event, self._legs.time(self._legs.first(event)), new, changed)

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        parts = {name: part.to_arrays() for name, part in self._numberings.items()}
        parts |= {"beginnings": self._dealings.to_arrays(), "legs": self._legs.to_arrays()}
        parts["holder"] = {name: part.values.copy() for name, part in self._holder.items()}
        return joined(parts) | {
            "n_rows": np.array([self.n_rows]),
            "holders": of_text(json.dumps(list(self._holders))),
        }

    @classmethod
    def from_arrays(cls, schema: Schema, arrays: Arrays) -> Self:
        found = cls(schema)
        found.n_rows = int(arrays["n_rows"][0])
        found._numberings = {
            name: Numbering.from_arrays(part_of(arrays, name)) for name in _NUMBERINGS
        }
        found._dealings = Dealings.from_arrays(part_of(arrays, "beginnings"))
        found._legs = Legs.from_arrays(part_of(arrays, "legs"))
        found._holder = {
            name: ByNumber(_NO_HOLDER, column) for name, column in part_of(arrays, "holder").items()
        }
        names = json.loads(to_text(arrays["holders"]))
        found._holders = {name: number for number, name in enumerate(names)}
        return found


def _sides_with_legs(schema: Schema) -> list[str]:
    return [name for name, side in schema.sides.items() if side.leg is not None]


def _require_values(rows: pl.DataFrame, names: list[str | None]) -> None:
    for name in names:
        if name is not None and name not in rows.columns:
            raise DataError(f"the table has no column {name!r}, which the schema names")
        if name is not None and rows[name].has_nulls():
            raise DataError(f"column {name!r}: every row must have a value")
