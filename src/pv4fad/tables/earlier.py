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
        n_instants = int(time.max(initial=0)) + 1
        key = group * n_instants + time
        order = np.argsort(key)
        sorted_key = key[order]
        instant = run_starts(sorted_key)
        start = run_starts(sorted_key // n_instants)
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
