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

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import EarlierRows, Integers, group_codes, run_starts

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

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
    known = {side: codes != MISSING_ID for side, codes in rows.ids.items()}
    for side, codes in rows.ids.items():
        features[f"{side}_rows_before"] = np.where(known[side], _count(rows, codes), np.nan)
        features[f"{side}_days_since"] = np.where(known[side], _days_since(rows, codes), np.nan)
        if others := [rows.ids[other] for other in rows.ids if other != side]:
            counted = np.all(list(known.values()), axis=0)
            distinct = _distinct(rows, codes, group_codes(*others), counted)
            features[f"{side}_others_before"] = np.where(known[side], distinct, np.nan)
    if len(rows.ids) > 1:
        seen = _count(rows, group_codes(*rows.ids.values()))
        all_known = np.all(list(known.values()), axis=0)
        features["first_dealing"] = np.where(all_known, seen == 0, np.nan)
    return features


def _count(rows: HistoryRows, group: Integers) -> Integers:
    """How many rows of its group a row sees."""
    count = EarlierRows.of(group, rows.time).count()
    if rows.event is None:
        return count
    return count - EarlierRows.of(group_codes(group, rows.event), rows.time).count()


def _days_since(rows: HistoryRows, group: Integers) -> Floats:
    """The days since the last row of its group that a row sees; NaN if there is none."""
    earlier = EarlierRows.of(group, rows.time)
    last = earlier.instant_start - 1
    if rows.event is not None:
        # If the last earlier row is of the own event, skip its neighbours of the same event.
        own = group_codes(group, rows.event)
        run = run_starts(own[earlier.order])
        last = np.where(own[earlier.order[last]] == own, run[last] - 1, last)
    exists = (earlier.count() > 0) & (last >= earlier.group_start)
    days = rows.days[rows.time]
    return np.where(exists, days - days[earlier.order[last]], np.nan)


def _distinct(rows: HistoryRows, group: Integers, other: Integers, counted: Flags) -> Integers:
    """How many different `other` a row sees among the counted rows of its group.

    A row at time t sees a pair of group and other if the pair first occurred before t.  If it first
    occurred in the row's own event, that does not help: then it sees the pair if the pair occurred
    in another event before t.
    """
    pair = group_codes(group, other)
    order = EarlierRows.of(pair, rows.time).order
    order = order[counted[order]]
    start = run_starts(pair[order])
    is_first = start == np.arange(len(order))
    first = order[is_first]
    seen = _before(group[first], rows.time[first], group, rows.time)
    if rows.event is None:
        return seen
    own = group_codes(group, rows.event)
    began = order[start]  # by row in `order`: where its pair first occurred
    elsewhere = np.flatnonzero(rows.event[order] != rows.event[began])
    _, first_of_pair = np.unique(start[elsewhere], return_index=True)
    again = elsewhere[first_of_pair]
    seen -= _before(own[first], rows.time[first], own, rows.time)
    return seen + _before(own[began[again]], rows.time[order[again]], own, rows.time)


def _before(entry_key: Integers, entry_time: Integers, key: Integers, time: Integers) -> Integers:
    """By key and time: how many entries there are of that key before that time."""
    stride = int(time.max(initial=0)) + 1
    entries = np.sort(entry_key * stride + entry_time)
    start = np.searchsorted(entries, key * stride)
    result: Integers = np.searchsorted(entries, key * stride + time) - start
    return result
