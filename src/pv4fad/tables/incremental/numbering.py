"""Small numbers for texts and for pairs of numbers: equal where the values are, from 0 on.

A text is known by 16 bytes of its BLAKE2b digest: a tenth of the memory that a table of texts
takes, and two texts with the same number would be a collision of the hash.  Nothing is in the
clear.

Known values are one sorted array, and a table in Python of those that came lately.
"""

from __future__ import annotations

import hashlib
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.tables.earlier import Integers
from pv4fad.tables.incremental.at_rest import Arrays

NUMBER_BITS = 28
"""Two numbers and one of 128 kinds fit 63 bits."""

_DIGEST = np.dtype("S16")
# Of bytes that no text in UTF-8 is.
_NO_TEXT = hashlib.blake2b(b"\xff", digest_size=_DIGEST.itemsize).digest()
_MOST_LATELY = 50_000


class Numbering:
    """Numbers of 64-bit integers, or of texts by their digests."""

    def __init__(self) -> None:
        self._known: NDArray[Any] | None = None  # ascending
        self._numbers: Integers = np.zeros(0, np.int64)
        self._lately: dict[int | bytes, int] = {}

    def __len__(self) -> int:
        return len(self._numbers) + len(self._lately)

    def of_texts(self, *columns: pl.Series) -> list[Integers]:
        """The numbers of texts, by column; what is missing is a value of its own."""
        lengths = [len(column) for column in columns]
        if len(columns) > 1 and sum(lengths) > _MOST_LATELY:
            return [numbers for column in columns for numbers in self.of_texts(column)]
        texts = [text for column in columns for text in column.cast(pl.String).to_list()]
        distinct = dict.fromkeys(texts)
        number = self._of_distinct(np.array(list(map(_digest, distinct)), _DIGEST)).tolist()
        of_text = dict(zip(distinct, number, strict=True))
        found = np.fromiter(map(of_text.__getitem__, texts), np.int64, len(texts))
        return np.split(found, np.cumsum(lengths)[:-1])

    def of_pairs(self, left: Integers, right: Integers) -> Integers:
        return self.of((left << NUMBER_BITS) | right)

    def of(self, values: NDArray[Any]) -> Integers:
        """A value that has no number yet gets the next one."""
        distinct, which = np.unique(values, return_inverse=True)
        result: Integers = self._of_distinct(distinct)[which.reshape(-1)]
        return result

    def _of_distinct(self, values: NDArray[Any]) -> Integers:
        """Of values that differ, in any order."""
        at_once = len(values) > _MOST_LATELY
        if at_once or len(self._lately) > _MOST_LATELY:
            self._settle()
        number = self._settled(values)
        missing = np.flatnonzero(number < 0)
        if at_once:
            number[missing] = np.arange(len(self), len(self) + len(missing))
            order = missing[np.argsort(values[missing])]
            self._insert(values[order], number[order])
        elif len(missing):
            number[missing] = self._of_late(values[missing].tolist())
        if len(self) >= 1 << NUMBER_BITS:
            raise DataError(f"more than {1 << NUMBER_BITS:,} different values of one kind")
        return number

    def _of_late(self, values: list[int | bytes]) -> list[int]:
        """Of values that are not settled."""
        lately, n_known = self._lately, len(self)
        found = []
        for value in values:
            number = lately.get(value)
            if number is None:
                lately[value] = number = n_known
                n_known += 1
            found.append(number)
        return found

    def _settled(self, values: NDArray[Any]) -> Integers:
        if self._known is None:
            return np.full(len(values), -1)
        place = np.minimum(np.searchsorted(self._known, values), len(self._known) - 1)
        return np.where(self._known[place] == values, self._numbers[place], -1)

    def _settle(self) -> None:
        """Nothing is in the table of late values any more."""
        if self._lately:
            late = list(self._lately)
            dtype = np.int64 if isinstance(late[0], int) else _DIGEST
            values, numbers = np.array(late, dtype), np.array(list(self._lately.values()))
            order = np.argsort(values)
            self._lately = {}
            self._insert(values[order], numbers[order])

    def _insert(self, values: NDArray[Any], numbers: Integers) -> None:
        """Values in order that are not known yet."""
        if self._known is None:
            self._known, self._numbers = values, numbers
        else:
            place = np.searchsorted(self._known, values)
            self._known = np.insert(self._known, place, values)
            self._numbers = np.insert(self._numbers, place, numbers)

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        self._settle()
        return {} if self._known is None else {"known": self._known, "numbers": self._numbers}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        found = cls()
        if arrays:
            found._known, found._numbers = arrays["known"], arrays["numbers"]
        return found


def keys(kind: int, left: Integers, right: Integers | int = 0) -> Integers:
    """One key for two numbers; keys of different kinds differ."""
    return (kind << 2 * NUMBER_BITS) | (left << NUMBER_BITS) | right


class ByNumber:
    """An integer for each number, in an array that grows; `empty` until it is set."""

    def __init__(self, empty: int, values: NDArray[Any] | None = None) -> None:
        self._empty = empty
        self.values = np.zeros(0, np.int64) if values is None else np.array(values, np.int64)

    def reach(self, length: int) -> Integers:
        """The array, with room for so many numbers; to be written to."""
        if length > len(self.values):
            more = np.full(max(length, 2 * len(self.values)) - len(self.values), self._empty)
            self.values = np.concatenate([self.values, more])
        return self.values


def _digest(text: str | None) -> bytes:
    if text is None:
        return _NO_TEXT
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST.itemsize).digest()
