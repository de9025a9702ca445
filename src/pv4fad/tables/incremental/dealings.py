"""When the same ids first dealt with each other, and when they first did in another event.

Of each *dealing*, a combination of ids with a number:

    began    the time of its first row            event    the event of that row
    again    the time of its first row in any other event; FOREVER if there is none

Of rows at the same time in several events one is the first, any: what is asked does not depend on
which.  All three follow from what was known and the rows that arrive, without earlier rows.  Where
rows have no events, each is one of its own, and only `began` matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import Integers, run_starts
from pv4fad.tables.incremental.at_rest import Arrays
from pv4fad.tables.incremental.numbering import ByNumber
from pv4fad.tables.incremental.timed_sums import FOREVER

_NO_EVENT = -1


@dataclass(frozen=True)
class Beginnings:
    """Of some dealings."""

    began: Integers  # FOREVER: it has no row
    event: Integers
    again: Integers

    def at(self, which: NDArray[Any]) -> Beginnings:
        return Beginnings(self.began[which], self.event[which], self.again[which])

    def with_(self, other: Beginnings) -> Beginnings:
        """Of the rows of both."""
        later = other.began < self.began
        first = Beginnings(*(np.where(later, b, a) for a, b in self._side_by_side(other)))
        second = Beginnings(*(np.where(later, a, b) for a, b in self._side_by_side(other)))
        elsewhere = np.where(second.event == first.event, second.again, second.began)
        return Beginnings(first.began, first.event, np.minimum(first.again, elsewhere))

    def _side_by_side(self, other: Beginnings) -> list[tuple[Integers, Integers]]:
        names = ("began", "event", "again")
        return [(getattr(self, name), getattr(other, name)) for name in names]

    @classmethod
    def of_rows(cls, dealing: Integers, event: Integers, time: Integers) -> tuple[Integers, Self]:
        """A row of each dealing among them, and the beginnings of these dealings."""
        order = np.lexsort((time, dealing))
        start = run_starts(dealing[order])
        begins = np.flatnonzero(start == np.arange(len(start)))
        event, time = event[order], time[order]
        again = np.full(len(order), FOREVER)
        elsewhere = np.flatnonzero(event != event[start])
        of_run, position = np.unique(start[elsewhere], return_index=True)
        again[of_run] = time[elsewhere[position]]
        return order[begins], cls(time[begins], event[begins], again[begins])


@dataclass(frozen=True)
class Changed:
    """Dealings whose beginnings are not what they were."""

    row: Integers  # of the batch, one of the dealing
    before: Beginnings
    now: Beginnings


class Dealings:
    """Of all rows so far."""

    def __init__(self) -> None:
        self._began, self._event = ByNumber(FOREVER), ByNumber(_NO_EVENT)
        self._again = ByNumber(FOREVER)
        self._at_once: dict[int, set[int]] = {}
        """Of dealings that began in several events at once: the other events."""

    def add(self, dealing: Integers, event: Integers | None, time: Integers) -> Changed:
        """Rows; `dealing` and `event`: numbers from 0 on."""
        event = np.zeros_like(dealing) if event is None else event
        row, of_rows = Beginnings.of_rows(dealing, event, time)
        touched = dealing[row]
        n_dealings = int(dealing.max(initial=-1)) + 1
        columns = [column.reach(n_dealings) for column in (self._began, self._event, self._again)]
        before = Beginnings(*(column[touched] for column in columns))
        now = before.with_(of_rows)
        for column, values in zip(columns, (now.began, now.event, now.again), strict=True):
            column[touched] = values
        for earlier in touched[now.began < before.began] if self._at_once else ():
            self._at_once.pop(int(earlier), None)
        began, first = self._began.values[dealing], self._event.values[dealing]
        for other in np.flatnonzero((time == began) & (event != first)):
            self._at_once.setdefault(int(dealing[other]), set()).add(int(event[other]))
        differ = (
            (now.began != before.began) | (now.event != before.event) | (now.again != before.again)
        )
        return Changed(row[differ], before.at(differ), now.at(differ))

    def is_first(
        self, dealing: Integers, event: Integers | None, time: Integers
    ) -> NDArray[np.bool_]:
        """Whether no other event of the dealing began strictly before that of a row at a time."""
        began: Integers = self._began.values[dealing]
        if event is None:
            return np.asarray(began == time)
        found: NDArray[np.bool_] = self._event.values[dealing] == event
        for row in np.flatnonzero(~found & (self._again.values[dealing] == began)):
            found[row] = int(event[row]) in self._at_once.get(int(dealing[row]), ())
        return found

    def is_new(
        self, dealing: Integers, event: Integers | None, time: Integers
    ) -> NDArray[np.bool_]:
        """Whether no other event has a row of the dealing strictly before a time."""
        elsewhere: Integers = self._began.values[dealing]
        if event is not None:
            again = self._again.values[dealing]
            elsewhere = np.where(self._event.values[dealing] == event, again, elsewhere)
        return elsewhere >= time

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        at_once = [(one, event) for one, events in self._at_once.items() for event in events]
        return {
            "began": self._began.values.copy(),
            "event": self._event.values.copy(),
            "again": self._again.values.copy(),
            "at_once": np.array(at_once, np.int64).reshape(-1, 2),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        found = cls()
        found._began = ByNumber(FOREVER, arrays["began"])
        found._event = ByNumber(_NO_EVENT, arrays["event"])
        found._again = ByNumber(FOREVER, arrays["again"])
        for dealing, event in arrays["at_once"].tolist():
            found._at_once.setdefault(dealing, set()).add(event)
        return found
