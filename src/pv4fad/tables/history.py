"""Features that say what happened before: counts, recency, first dealings.

For every side, of the rows with the same id on this side:

    <side>_rows_before      how many there are
    <side>_days_since       days since the last of them; missing if there is none
    <side>_others_before    with several sides: different combinations of the other sides' ids

and with several sides `first_dealing`: 1 if the combination of all ids is new, else 0.

A row sees rows with a strictly smaller time that do not belong to its own event.  So a feature
never changes when later rows arrive.  Where an id is missing, the features that need it are
missing, and the combination is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import EarlierRows, Integers, group_codes, run_starts

Floats = NDArray[np.float64]

MISSING_ID = 0


@dataclass(frozen=True)
class HistoryRows:
    """What the features need to know of each row, as integers."""

    time: Integers  # ranks: equal where times are equal, ascending
    days: Floats  # by rank
    event: Integers | None  # below 2^31; None: each row is an event of its own
    ids: dict[str, Integers]  # by side; MISSING_ID where there is none


def history_features(rows: HistoryRows) -> dict[str, Floats]:
    """The features by name, in order; NaN where missing."""
    features: dict[str, Floats] = {}
    known = {side: ids != MISSING_ID for side, ids in rows.ids.items()}
    all_known = np.all(list(known.values()), axis=0)
    dealing = _Seen.of(rows, group_codes(*rows.ids.values()))
    firsts = dealing.firsts(all_known)
    for side, ids in rows.ids.items():
        seen = dealing if len(rows.ids) == 1 else _Seen.of(rows, ids)
        found: dict[str, NDArray[Any]] = {
            "rows_before": seen.count(),
            "days_since": seen.days_since(),
        }
        if len(rows.ids) > 1:
            found["others_before"] = seen.distinct(firsts)
        for name, values in found.items():
            features[f"{side}_{name}"] = np.where(known[side], values, np.nan)
    if len(rows.ids) > 1:
        features["first_dealing"] = np.where(all_known, dealing.count() == 0, np.nan)
    return features


@dataclass(frozen=True)
class _Firsts:
    """Where each combination of ids first occurs."""

    is_first: Integers  # by row, 0 or 1: one row of each combination, at its first time
    began: Integers  # of combinations that occur in several events: that row,
    again: Integers  # and the first one in another event


@dataclass(frozen=True)
class _Seen:
    """The rows of its group that each row sees."""

    rows: HistoryRows
    group: Integers
    earlier: EarlierRows
    own: Integers | None  # group and event
    own_earlier: EarlierRows | None

    @classmethod
    def of(cls, rows: HistoryRows, group: Integers) -> _Seen:
        earlier = EarlierRows.of(group, rows.time)
        if rows.event is None:
            return cls(rows, group, earlier, None, None)
        own = group_codes(group, rows.event)
        return cls(rows, group, earlier, own, EarlierRows.of(own, rows.time))

    def count(self) -> Integers:
        """How many they are."""
        count = self.earlier.count()
        return count if self.own_earlier is None else count - self.own_earlier.count()

    def days_since(self) -> Floats:
        """The days since the last of them; NaN if there is none."""
        order = self.earlier.order
        last = self.earlier.instant_start - 1
        if self.own is not None:
            # If the last earlier row is of the own event, skip its neighbours of the same event.
            run = run_starts(self.own[order])
            last = np.where(self.own[order[last]] == self.own, run[last] - 1, last)
        exists = (self.earlier.count() > 0) & (last >= self.earlier.group_start)
        days = self.rows.days[self.rows.time]
        return np.where(exists, days - days[order[last]], np.nan)

    def firsts(self, counted: NDArray[np.bool_]) -> _Firsts:
        """Where each group first occurs among the counted rows."""
        order = self.earlier.order[counted[self.earlier.order]]
        start = run_starts(self.group[order])
        is_first = np.zeros(len(counted), np.int64)
        is_first[order[start]] = 1
        if self.own is None:
            return _Firsts(is_first, start[:0], start[:0])
        elsewhere = np.flatnonzero(self.own[order] != self.own[order[start]])
        begins, position = np.unique(start[elsewhere], return_index=True)
        return _Firsts(is_first, order[begins], order[elsewhere[position]])

    def distinct(self, firsts: _Firsts) -> Integers:
        """How many different combinations of ids they have.

        A row at time t sees a combination that first occurred before t, unless that was in the
        row's own event; then it sees the combination if another event had it before t.
        """
        seen = self.earlier.sum(firsts.is_first)
        if self.own is None or self.own_earlier is None:
            return seen
        seen -= self.own_earlier.sum(firsts.is_first)
        time = self.rows.time
        n_times = len(self.rows.days)
        again = np.sort(self.own[firsts.began] * n_times + time[firsts.again])
        # Others have no earlier row in their own event.
        asks = np.flatnonzero(self.own_earlier.count())
        key = self.own[asks] * n_times
        seen[asks] += np.searchsorted(again, key + time[asks]) - np.searchsorted(again, key)
        return seen
