"""What happened earlier: counts, sums, last time, distinct partners, over strictly earlier rows.

A log holds payments, each with a key (an account, or a pair of accounts) and a time.  It is asked
about keys at times, and answers from the payments of that key strictly before that time, or within
[time − window, time).  It is sorted arrays and binary search.

Questions are answered in the order of keys and times: many times faster than in any other, because
each finds its answer close to the one before.  `Asked.by_question` puts answers into the order of
the questions.

Everything is integer arithmetic, so an answer does not depend, not even in the last bit, on the
order of rows or on what was added later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.tables.earlier import Integers

Numbers = TypeVar("Numbers", bound=np.generic)


@dataclass(frozen=True)
class Payments:
    """What happened, by payment."""

    time: Integers
    pair: Integers  # code of (payer, payee)
    amount: Integers


class Questions:
    """When payments happened, and the times at which logs of them are asked.

    Times become ranks among the times of payments: a key and a rank fit one 64-bit number.
    """

    def __init__(self, time: Integers, payments: Payments) -> None:
        self.time = time
        self.payments = payments
        self.instants = np.unique(payments.time)
        self.payment_rank = np.searchsorted(self.instants, payments.time)
        self.stride = len(self.instants) + 1
        self._ranks: dict[int, Integers] = {}

    def rank(self, window: int = 0) -> Integers:
        """By question: how many instants lie strictly before `time − window`."""
        if window not in self._ranks:
            self._ranks[window] = np.searchsorted(self.instants, self.time - window)
        return self._ranks[window]

    @cached_property
    def _by_pair(self) -> Integers:
        return np.argsort(self.payments.pair * self.stride + self.payment_rank)

    def relations(self, window: int | None) -> tuple[Integers, Integers]:
        """The payments with which relations begin (see `PaymentLog.partners`), and those that end
        them.

        Without a window each pair has one relation: it begins with a first payment of the pair.
        """
        order = self._by_pair
        pair, time = self.payments.pair[order], self.payments.time[order]
        apart = pair[1:] != pair[:-1]
        if window is not None:
            apart |= time[1:] - time[:-1] > window
        outer = np.ones(min(len(order), 1), bool)
        return order[np.concatenate([outer, apart])], order[np.concatenate([apart, outer])]


class Asked:
    """The key that each question is about."""

    def __init__(self, key: Integers, questions: Questions) -> None:
        self._questions = questions
        self._order = np.argsort(key * questions.stride + questions.rank())
        self.key = key[self._order]
        self.time = questions.time[self._order]
        self._wanted: dict[int, Integers] = {}

    def places(self, log: Integers, window: int = 0) -> Integers:
        """How many of the sorted (key, rank) come before the key and time of each question."""
        if window not in self._wanted:
            rank = self._questions.rank(window)[self._order]
            self._wanted[window] = self.key * self._questions.stride + rank
        return np.searchsorted(log, self._wanted[window])

    def by_question(self, answers: NDArray[Numbers]) -> NDArray[Numbers]:
        """In the order of the questions."""
        found = np.empty_like(answers)
        found[self._order] = answers
        return found


class PaymentLog:
    """Payments by key and time, and what can be asked about them."""

    def __init__(self, key: Integers, n_keys: int, questions: Questions) -> None:
        """`key` by payment, below `n_keys`.  To count partners, a key is one side of the pair."""
        self._questions = questions
        self._key = key
        self._n_keys = n_keys
        self._index = RankIndex(key, questions.payment_rank, n_keys, questions.stride)
        running = np.cumsum(questions.payments.amount[self._index.order])
        # The sum over all keys may wrap around; differences are exact while they fit 64 bits.
        self._running = np.concatenate([np.zeros(1, np.int64), running])
        self._relations: dict[int | None, tuple[RankIndex, RankIndex]] = {}
        self._places: dict[tuple[Asked, int], Integers] = {}

    def count(self, asked: Asked, window: int | None = None) -> Integers:
        """Earlier payments of each key, or those within the window."""
        return self._until(asked) - self._since(asked, window)

    def total(self, asked: Asked, window: int | None = None) -> Integers:
        """The amount of those payments."""
        until, since = self._until(asked), self._since(asked, window)
        result: Integers = self._running[until] - self._running[since]
        return result

    def partners(self, asked: Asked, window: int | None = None) -> Integers:
        """Distinct pairs among those payments.

        Payments of a pair that follow each other within the window are one relation.  A pair has
        paid within [T − window, T) exactly if it has begun a relation before T that has not ended
        before T − window, so beginnings and ends are counted instead of looking into windows.
        """
        if window not in self._relations:
            begins, ends = self._questions.relations(window)
            self._relations[window] = self._among(begins), self._among(ends)
        began, ended = self._relations[window]
        alive = began.before(asked)
        return alive if window is None else alive - ended.before(asked, window)

    def since_last(self, asked: Asked) -> tuple[Integers, NDArray[np.bool_]]:
        """The time since the last earlier payment of each key, and whether there was one."""
        until = self._until(asked)
        exists = until > self._index.start(asked.key)
        if not exists.any():
            return np.zeros_like(until), exists
        last = self._questions.payments.time[self._index.order[np.maximum(until - 1, 0)]]
        return np.where(exists, asked.time - last, 0), exists

    def _until(self, asked: Asked) -> Integers:
        return self._place(asked, 0)

    def _since(self, asked: Asked, window: int | None) -> Integers:
        return self._index.start(asked.key) if window is None else self._place(asked, window)

    def _place(self, asked: Asked, window: int) -> Integers:
        """Where in the log the payments of each key before `time − window` end."""
        if (asked, window) not in self._places:
            self._places[asked, window] = self._index.places(asked, window)
        return self._places[asked, window]

    def _among(self, payments: Integers) -> RankIndex:
        rank = self._questions.payment_rank[payments]
        return RankIndex(self._key[payments], rank, self._n_keys, self._questions.stride)


class RankIndex:
    """Some payments, sorted by key and by the rank of their time."""

    def __init__(self, key: Integers, rank: Integers, n_keys: int, stride: int) -> None:
        """`stride`: of the questions that will be asked."""
        combined = key * stride + rank
        self.order: Integers = np.argsort(combined)
        self._sorted = combined[self.order]
        counts = np.bincount(key, minlength=n_keys)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def start(self, key: Integers) -> Integers:
        """Where the payments of a key begin in `order`."""
        result: Integers = self._starts[key]
        return result

    def places(self, asked: Asked, window: int = 0) -> Integers:
        """Where in `order` the payments of each key before `time − window` end."""
        return asked.places(self._sorted, window)

    def before(self, asked: Asked, window: int = 0) -> Integers:
        """How many payments of each key lie before `time − window`."""
        return self.places(asked, window) - self.start(asked.key)
