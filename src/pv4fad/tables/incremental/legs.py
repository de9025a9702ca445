"""The first and the last row of each event, by time and id; such as the legs of a payment.

Of rows at the same time the id decides, as everywhere.  When a row arrives that comes before the
first one known, the event begins with it from then on: `FirstLegs` says what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import Integers, run_starts
from pv4fad.tables.incremental.at_rest import Arrays
from pv4fad.tables.incremental.numbering import ByNumber

NO_ROW = -1


@dataclass(frozen=True)
class FirstLegs:
    """Events that begin with another row than before, each once."""

    before: Integers  # number of the row, NO_ROW where the event is new
    began_before: Integers  # its time
    now: Integers
    begins_now: Integers


class Legs:
    """Rows are numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._n_rows = 0
        self._time = ByNumber(0)  # by row
        self._ids = bytearray()  # in UTF-8, one after the other
        self._id_end = ByNumber(0)  # by row
        self._first, self._last = ByNumber(NO_ROW), ByNumber(NO_ROW)  # by event

    def add(self, event: Integers, time: Integers, ids: Sequence[str]) -> FirstLegs:
        """Rows; `event`: numbers from 0 on."""
        new = slice(self._n_rows, self._n_rows + len(event))
        self._time.reach(new.stop)[new] = time
        texts = [text.encode() for text in ids]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._id_end.reach(new.stop)[new] = len(self._ids) + np.cumsum(lengths)
        self._ids += b"".join(texts)
        self._n_rows = new.stop
        rank = np.empty(len(texts), np.int64)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        order = np.lexsort((rank, time, event))
        begins = run_starts(event[order]) == np.arange(len(order))
        ends = np.append(begins[1:], np.ones(min(len(order), 1), bool))
        n_events = int(event.max(initial=-1)) + 1
        touched, row = event[order[begins]], order + new.start
        first = self._first.reach(n_events)
        before = first[touched]
        earlier = self._precedes(row[begins], before)
        first[touched[earlier]] = row[begins][earlier]
        last = self._last.reach(n_events)
        later = self._precedes(last[touched], row[ends]) | (last[touched] == NO_ROW)
        last[touched[later]] = row[ends][later]
        before, now = before[earlier], row[begins][earlier]
        return FirstLegs(before, self.time(before), now, self.time(now))

    def first(self, event: Integers) -> Integers:
        """The number of the first row of each event."""
        result: Integers = self._first.values[event]
        return result

    def last(self, event: Integers) -> Integers:
        result: Integers = self._last.values[event]
        return result

    def time(self, row: Integers) -> Integers:
        result: Integers = self._time.values[row]
        return result

    def _precedes(self, one: Integers, other: Integers) -> NDArray[np.bool_]:
        """Whether a row comes before another one; every row comes before none."""
        times, others = self._time.values[one], self._time.values[other]
        found: NDArray[np.bool_] = (times < others) | (other == NO_ROW)
        for position in np.flatnonzero((times == others) & (one != NO_ROW) & (other != NO_ROW)):
            found[position] = self._id(one[position]) < self._id(other[position])
        return found

    def _id(self, row: int) -> bytes:
        end = self._id_end.values
        return bytes(self._ids[end[row - 1] if row else 0 : end[row]])

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        return {
            "time": self._time.values[: self._n_rows].copy(),
            "ids": np.frombuffer(bytes(self._ids), np.uint8),
            "id_end": self._id_end.values[: self._n_rows].copy(),
            "first": self._first.values.copy(),
            "last": self._last.values.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        found = cls()
        found._n_rows = len(arrays["time"])
        found._ids = bytearray(arrays["ids"])
        found._time, found._id_end = ByNumber(0, arrays["time"]), ByNumber(0, arrays["id_end"])
        found._first = ByNumber(NO_ROW, arrays["first"])
        found._last = ByNumber(NO_ROW, arrays["last"])
        return found
