"""Sums by key over what is strictly earlier, of entries that are only ever added.

    add(key, time, values)         entries, in any order of time
    count(key, time)               how many entries of the key are strictly earlier than the time
    sums(key, time)                the sum of each of their values
    last, next_from                the time of the last entry before a time, of the first from it on

To take an entry back, add its negative: first value −1 where the entry has +1.  Such entries cancel
in sums, and `last` and `next_from` do not see them.

Entries lie in *runs*: sorted by key and time, with running sums, never changed.  What is added
becomes a run; a run that has grown to an eighth of the one before it is merged with that, so that
there are few runs, and an entry is moved a few times in its life.  The largest runs are merged by a
thread of their own: what is asked meanwhile sees the two of them.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import Integers, run_starts
from pv4fad.tables.incremental.at_rest import Arrays

NEVER = np.iinfo(np.int64).min
FOREVER = np.iinfo(np.int64).max

_RATIO = 8  # between the lengths of two runs that follow each other
_SHORT = 20_000  # entries: shorter runs are merged at once, whatever the ratio
_LONG = 1_000_000  # entries: merging as many takes longer than a batch of rows should wait


@dataclass(frozen=True)
class Run:
    """Entries sorted by key and time."""

    keys: Integers  # ascending, each once
    start: Integers  # (keys + 1,): where the entries of each begin
    time: Integers  # by entry
    running: Integers  # (values, entries + 1): sums of the values of all entries before

    @classmethod
    def of(cls, key: Integers, time: Integers, values: Integers) -> Self:
        """`values`: (values, entries)."""
        order = np.lexsort((time, key))
        key = key[order]
        first = np.flatnonzero(run_starts(key) == np.arange(len(key)))
        start = np.append(first, len(key))
        return cls(key[first], start, time[order], _running(values[:, order]))

    def __len__(self) -> int:
        return len(self.time)

    def places(self, key: Integers, time: Integers) -> tuple[Integers, Integers, Integers]:
        """Where the entries of each key begin, where those from a time on begin, where they end.

        A key without entries has three times the place where they would be.
        """
        slot = self.keys.searchsorted(key)
        known = self.keys.take(slot, mode="clip") == key
        begin, end = self.start.take(slot), self.start.take(slot + known)
        # Most questions are about a time after the last entry.
        until = end.copy()
        asked = np.flatnonzero(known & (self.time.take(end - 1, mode="clip") >= time))
        if len(asked):
            until[asked] = self._search(begin[asked], end[asked], time[asked])
        return begin, until, end

    def _search(self, low: Integers, high: Integers, time: Integers) -> Integers:
        """Between two places each, where the entries from a time on begin."""
        while (searched := low < high).any():
            middle = (low + high) >> 1
            before = self.time.take(middle, mode="clip") < time
            low = np.where(searched & before, middle + 1, low)
            high = np.where(searched & ~before, middle, high)
        return low

    def merged(self, other: Run) -> Run:
        """The entries of both, of which the other one is shorter."""
        n_entries = np.diff(other.start)
        _, place, _ = self.places(np.repeat(other.keys, n_entries), other.time)
        values = np.insert(np.diff(self.running), place, np.diff(other.running), axis=1)
        slot = np.searchsorted(self.keys, other.keys)
        new = self.keys[np.minimum(slot, len(self.keys) - 1)] != other.keys
        keys = np.insert(self.keys, slot[new], other.keys[new])
        sizes = np.insert(np.diff(self.start), slot[new], 0)
        sizes[np.searchsorted(keys, other.keys)] += n_entries
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return Run(keys, start, np.insert(self.time, place, other.time), _running(values))


def _running(values: Integers) -> Integers:
    running = np.zeros((values.shape[0], values.shape[1] + 1), np.int64)
    np.cumsum(values, axis=1, out=running[:, 1:])
    return running


class TimedSums:
    """Entries of `n_values` values each; with none they are only counted, and never taken back."""

    def __init__(self, n_values: int) -> None:
        self._n_values = n_values
        self._runs: list[Run] = []  # the longest first
        self._some_taken_back = False
        self._merging: tuple[int, Future[Run]] | None = None  # two runs from this one on
        self._thread = ThreadPoolExecutor(1)

    def add(self, key: Integers, time: Integers, *values: Integers) -> None:
        """Entries; `values` by entry."""
        if len(key):
            self._append(Run.of(key, time, np.reshape(values, (self._n_values, len(key)))))
            self._tidy()

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        self._some_taken_back |= bool((np.diff(run.running[:1]) < 0).any())

    def count(self, key: Integers, time: Integers) -> Integers:
        found = np.zeros(len(key), np.int64)
        for run in self._runs:
            begin, until, _ = run.places(key, time)
            found += until - begin
        return found

    def sums(self, key: Integers, time: Integers) -> Integers:
        """(values, questions)."""
        found = np.zeros((self._n_values, len(key)), np.int64)
        for run in self._runs:
            begin, until, _ = run.places(key, time)
            found += run.running[:, until] - run.running[:, begin]
        return found

    def last(self, key: Integers, time: Integers) -> Integers:
        """The last time before `time`; NEVER where there is none."""
        found = np.full(len(key), NEVER)
        asked, before = np.arange(len(key)), time
        while len(asked):
            at = np.full(len(asked), NEVER)
            for run in self._runs:
                begin, until, _ = run.places(key[asked], before)
                at = np.maximum(at, np.where(until > begin, run.time[until - 1], NEVER))
            there = self._is_there(key[asked], at, at != NEVER)
            found[asked[there]] = at[there]
            asked, before = (part[~there & (at != NEVER)] for part in (asked, at))
        return found

    def next_from(self, key: Integers, time: Integers) -> Integers:
        """The first time that is `time` or later; FOREVER where there is none."""
        found = np.full(len(key), FOREVER)
        asked, since = np.arange(len(key)), time
        while len(asked):
            at = np.full(len(asked), FOREVER)
            for run in self._runs:
                _, until, end = run.places(key[asked], since)
                after = run.time[np.minimum(until, len(run) - 1)]
                at = np.minimum(at, np.where(until < end, after, FOREVER))
            there = self._is_there(key[asked], at, at != FOREVER)
            found[asked[there]] = at[there]
            asked, since = (part[~there & (at != FOREVER)] for part in (asked, at))
            since = since + 1
        return found

    def entries(self, key: Integers, time: Integers) -> tuple[Integers, Integers]:
        """The number of the question, and (values, entries), of all entries before."""
        numbers, values = [np.zeros(0, np.int64)], [np.zeros((self._n_values, 0), np.int64)]
        for run in self._runs:
            begin, until, _ = run.places(key, time)
            n_entries = until - begin
            number = np.repeat(np.arange(len(key)), n_entries)
            within = np.arange(len(number)) - np.repeat(np.cumsum(n_entries) - n_entries, n_entries)
            place = begin[number] + within
            numbers.append(number)
            values.append(run.running[:, place + 1] - run.running[:, place])
        return np.concatenate(numbers), np.concatenate(values, axis=1)

    def _is_there(self, key: Integers, at: Integers, exists: NDArray[np.bool_]) -> Any:
        """Whether not all entries at this very time were taken back."""
        if not self._some_taken_back or not exists.any():
            return exists
        time = np.where(exists, at, 0)
        both = self.sums(np.tile(key, 2), np.concatenate([time, time + 1]))[0]
        return exists & (both[: len(key)] < both[len(key) :])

    def _tidy(self) -> None:
        if self._merging is not None and self._merging[1].done():
            position, merged = self._merging
            self._runs[position : position + 2] = [merged.result()]
            self._merging = None
        while len(self._runs) > 1:
            longer, shorter = self._runs[-2:]
            if len(longer) > max(_SHORT, _RATIO * len(shorter)):
                break
            position = len(self._runs) - 2
            if self._merging is not None and position <= self._merging[0] + 1:
                break
            if len(shorter) > len(longer):
                longer, shorter = shorter, longer
            if len(longer) > _LONG:
                if self._merging is None:
                    merging = self._thread.submit(longer.merged, shorter)
                    self._merging = (position, merging)
                break
            self._runs[position:] = [longer.merged(shorter)]

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        return {
            f"{number}.{part.name}": getattr(run, part.name)
            for number, run in enumerate(self._runs)
            for part in fields(run)
        }

    @classmethod
    def from_arrays(cls, n_values: int, arrays: Arrays) -> Self:
        found = cls(n_values)
        names = [part.name for part in fields(Run)]
        for number in range(len(arrays) // len(names)):
            found._append(Run(*(arrays[f"{number}.{name}"] for name in names)))
        return found
