"""What happened earlier: counts, sums, last time, distinct partners, over strictly earlier rows.

A log holds payments, each with a key (an account, or a pair of accounts) and a time.  It is asked
about keys at times, and answers from the payments of that key strictly before that time, or within
[time − window, time).  It is sorted arrays and binary search.

Everything is integer arithmetic, so an answer does not depend, not even in the last bit, on the
order of rows or on what was added later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import Integers


@dataclass(frozen=True)
class Payments:
    """What happened, by payment."""

    time: Integers
    pair: Integers  # code of (payer, payee)
    amount: Integers


class Questions:
    """The times at which logs of the same payments are asked.

    Times become ranks among the times of payments: a key and a rank fit one 64-bit number.
    """

    def __init__(self, time: Integers, payments: Payments) -> None:
        self.time = time
        self.instants = np.unique(payments.time)
        self.payment_rank = np.searchsorted(self.instants, payments.time)
        self._ranks: dict[int, Integers] = {}

    def rank(self, window: int = 0) -> Integers:
        """By question: how many instants lie strictly before `time − window`."""
        if window not in self._ranks:
            self._ranks[window] = np.searchsorted(self.instants, self.time - window)
        return self._ranks[window]


class PaymentLog:
    """Payments by key and time, and what can be asked about them."""

    def __init__(
        self, key: Integers, n_keys: int, payments: Payments, questions: Questions
    ) -> None:
        """`key` by payment, below `n_keys`.  To count partners, a key is one side of the pair."""
        self._payments = payments
        self._questions = questions
        self._key = key
        self._n_keys = n_keys
        self._index = RankIndex(key, questions.payment_rank, n_keys, len(questions.instants))
        running = np.cumsum(payments.amount[self._index.order])
        # The sum over all keys may wrap around; differences are exact while they fit 64 bits.
        self._running = np.concatenate([np.zeros(1, np.int64), running])

    def count(self, key: Integers, window: int | None = None) -> Integers:
        """Earlier payments of each key, or those within the window."""
        return self._until(key) - self._since(key, window)

    def total(self, key: Integers, window: int | None = None) -> Integers:
        """The amount of those payments."""
        result: Integers = self._running[self._until(key)] - self._running[self._since(key, window)]
        return result

    def partners(self, key: Integers, window: int | None = None) -> Integers:
        """Distinct pairs among those payments.

        Payments of a pair that follow each other within the window are one relation.  A pair has
        paid within [T − window, T) exactly if it has begun a relation before T that has not ended
        before T − window, so beginnings and ends are counted instead of looking into windows.
        """
        begins, ends = relations(self._payments, window)
        alive = self._among(begins).before(key, self._questions.rank())
        if window is not None:
            alive = alive - self._among(ends).before(key, self._questions.rank(window))
        return alive

    def since_last(self, key: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The time since the last earlier payment of each key, and whether there was one."""
        until = self._until(key)
        exists = until > self._index.start(key)
        if not exists.any():
            return np.zeros_like(until), exists
        last = self._payments.time[self._index.order[np.maximum(until - 1, 0)]]
        return np.where(exists, self._questions.time - last, 0), exists

    def _until(self, key: Integers) -> Integers:
        return self._index.position(key, self._questions.rank())

    def _since(self, key: Integers, window: int | None) -> Integers:
        if window is None:
            return self._index.start(key)
        return self._index.position(key, self._questions.rank(window))

    def _among(self, payments: Integers) -> RankIndex:
        rank = self._questions.payment_rank[payments]
        return RankIndex(self._key[payments], rank, self._n_keys, len(self._questions.instants))


class RankIndex:
    """Some payments, sorted by key and by the rank of their time."""

    def __init__(self, key: Integers, rank: Integers, n_keys: int, n_instants: int) -> None:
        self._stride = n_instants + 1
        combined = key * self._stride + rank
        self.order: Integers = np.argsort(combined)
        self._sorted = combined[self.order]
        counts = np.bincount(key, minlength=n_keys)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def start(self, key: Integers) -> Integers:
        """Where the payments of a key begin in `order`."""
        result: Integers = self._starts[key]
        return result

    def position(self, key: Integers, rank: Integers) -> Integers:
        """Where in `order` its payments with a smaller rank end."""
        return np.searchsorted(self._sorted, key * self._stride + rank)

    def before(self, key: Integers, rank: Integers) -> Integers:
        """How many payments of a key have a smaller rank."""
        return self.position(key, rank) - self.start(key)


def relations(payments: Payments, window: int | None) -> tuple[Integers, Integers]:
    """The payments with which relations begin (see `PaymentLog.partners`), and those that end them.

    Without a window each pair has one relation: it begins with a first payment of the pair.
    """
    order = np.lexsort((payments.time, payments.pair))
    pair, time = payments.pair[order], payments.time[order]
    apart = pair[1:] != pair[:-1]
    if window is not None:
        apart |= time[1:] - time[:-1] > window
    outer = np.ones(min(len(order), 1), bool)
    return order[np.concatenate([outer, apart])], order[np.concatenate([apart, outer])]
