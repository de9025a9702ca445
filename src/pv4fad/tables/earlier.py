"""For each row of a table, the strictly earlier rows of its group.

A row sees the rows of its group with a smaller timestamp and no others: not itself, not rows with
an equal timestamp, not later ones.  Everything is integer arithmetic, so an answer does not depend,
not even in the last bit, on the order of rows or on what was added later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_SPARSE = 4  # codes per row
_CODE_LIMIT = 2**31  # two codes below this, or a code and a time rank, fit one int64 key


@dataclass(frozen=True)
class EarlierRows:
    """For each row, the strictly earlier rows of its group, as ranges of one sorted order."""

    order: Integers  # rows by (group, time)
    group_start: Integers  # by row: where its group begins in `order`
    instant_start: Integers  # by row: where the rows with its group and its time begin in `order`

    @classmethod
    def of(cls, group: Integers, time: Integers) -> EarlierRows:
        """Sort rows by group code and time rank (`group_codes`, `time_ranks`)."""
        order, start, instant = _in_order(group, time)
        group_start, instant_start = np.empty_like(order), np.empty_like(order)
        group_start[order], instant_start[order] = start, instant
        return cls(order, group_start, instant_start)

    def count(self) -> Integers:
        """How many strictly earlier rows the row's group has."""
        return self.instant_start - self.group_start

    def sum(self, values: Integers) -> Integers:
        """The sum of `values` over the strictly earlier rows of the row's group."""
        running = np.concatenate([[0], np.cumsum(values[self.order])])
        result: Integers = running[self.instant_start] - running[self.group_start]
        return result


class AskedRows:
    """The rows from `start` on, about which is asked; those before it are only seen by them.

    Rows that are seen by all that are asked about need no order: they are counted and added up.
    """

    def __init__(self, time: Integers, start: int) -> None:
        """`time`: ranks of all rows."""
        seen_by_all = time[:start] < time[start:].min(initial=np.iinfo(np.int64).max)
        self._start = start
        self._seen_by_all = np.flatnonzero(seen_by_all)
        self._others = np.flatnonzero(~np.pad(seen_by_all, (0, len(time) - start)))
        self._time = time[self._others]

    def earlier(self, group: Integers) -> EarlierTotals:
        """`group`: codes of all rows."""
        if len(self._seen_by_all) and int(group.max(initial=0)) >= _SPARSE * len(group):
            group = _dense(group)  # there is a total for every code
        return EarlierTotals(
            group[self._start :],
            self._seen_by_all,
            group[self._seen_by_all],
            self._others,
            *_in_order(group[self._others], self._time),
        )


@dataclass(frozen=True)
class EarlierTotals:
    """For each row that is asked about, totals over the strictly earlier rows of its group."""

    group: Integers  # of the rows asked about
    seen_by_all: Integers  # rows,
    their_group: Integers
    others: Integers  # rows; the last of them are those asked about
    order: Integers  # places in `others`
    start: Integers  # by place in `order`: where the group begins,
    instant: Integers  # and where its rows of the same time do

    def count(self) -> Integers:
        """How many they are."""
        recent = self._recent(self.instant - self.start)
        if not len(self.seen_by_all):
            return recent
        settled = np.bincount(self.their_group, minlength=self._n_groups)
        return np.asarray(settled[self.group] + recent)

    def sum(self, values: Integers) -> Integers:
        """The sum of their `values`, given for all rows."""
        running = np.concatenate([[0], np.cumsum(values[self.others][self.order])])
        recent = self._recent(running[self.instant] - running[self.start])
        if not len(self.seen_by_all):
            return recent
        settled = np.zeros(self._n_groups, np.int64)
        np.add.at(settled, self.their_group, values[self.seen_by_all])
        return np.asarray(settled[self.group] + recent)

    @property
    def _n_groups(self) -> int:
        return max(int(one.max(initial=-1)) for one in (self.group, self.their_group)) + 1

    def _recent(self, by_place: Integers) -> Integers:
        by_row = np.empty_like(by_place)
        by_row[self.order] = by_place
        return by_row[len(by_row) - len(self.group) :]


def _in_order(group: Integers, time: Integers) -> tuple[Integers, Integers, Integers]:
    """Rows by group and time; by place in this order, where the group begins, and where its rows
    of the same time do."""
    n_instants = int(time.max(initial=0)) + 1
    key = group * n_instants + time
    order = np.argsort(key)
    sorted_key = key[order]
    return order, run_starts(sorted_key // n_instants), run_starts(sorted_key)


def time_ranks(timestamps: pl.Series) -> Integers:
    """Dense ranks of timestamps: equal where they are equal, ascending."""
    return _dense(timestamps.to_physical().to_numpy().astype(np.int64))


def column_codes(column: pl.Series) -> Integers:
    """Small integers that are equal where the values are; blank is a value of its own."""
    if isinstance(column.dtype, pl.String):
        column = column.cast(pl.Categorical)  # many times faster than to sort text
    is_coded = isinstance(column.dtype, (pl.Categorical, pl.Enum))
    codes = column.to_physical() if is_coded else column.rank("dense")
    with_blank: Integers = codes.cast(pl.Int64).fill_null(-1).to_numpy() + 1
    # All columns of the process share the codes of categories: this one may have few of many.
    used = np.zeros(int(with_blank.max(initial=0)) + 1, np.bool_)
    used[with_blank] = True
    used[0] = True  # a blank has code 0, whether there is one or not
    return np.asarray((np.cumsum(used) - 1)[with_blank])


def group_codes(*parts: Integers) -> Integers:
    """One code below 2^31 for each combination of codes, themselves below 2^31."""
    combined = parts[0]
    for part in parts[1:]:
        combined = combined * (int(part.max(initial=0)) + 1) + part
        if int(combined.max(initial=0)) >= _CODE_LIMIT:
            combined = _dense(combined)
    return combined


def _dense(values: Integers) -> Integers:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def run_starts(sorted_values: Integers) -> Integers:
    """For each position of a sorted array, where its run of equal values begins."""
    positions = np.arange(len(sorted_values))
    begins = np.ones(len(sorted_values), bool)
    begins[1:] = sorted_values[1:] != sorted_values[:-1]
    return np.maximum.accumulate(np.where(begins, positions, 0))


def least_of_group(group: Integers, values: Integers) -> Integers:
    """By row: the least value of its group.  Takes memory for its rows, whatever the codes are."""
    if int(group.max(initial=-1)) > 2 * len(group):
        group = _dense(group)
    least = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    result: Integers = least[group]
    return result
