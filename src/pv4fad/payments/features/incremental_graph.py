"""The payment network's graph features, of messages that arrive a few at a time.

What `graph` defines, as sums over strictly earlier entries (`TimedSums`):

    SENT, RECEIVED   by account    payments: 1 and the amount
    PAIR             payer, payee  payments: 1 and the amount
    PAYEES, PAYERS   by account    the first payment of each of its pairs: 1 and the partner
    BEGAN, ENDED     by account    where its relations begin and end (`PaymentLog.partners`), for
                                   payees and payers and each window

A payment is an edge, made by its first leg.  If a leg arrives that comes before it, the edge is
taken back and another one added.  Times of one pair that follow each other are a *gap*; an edge
splits one, and relations begin and end at gaps longer than the window: entries are added for gaps
that appear, and taken back for gaps that disappear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.features.graph import (
    DAY,
    MOST_NEIGHBOURS,
    WEEK,
    hundredths,
    log_of_hundredths,
    recency,
)
from pv4fad.payments.schema import BENEFICIARY, ORDERING
from pv4fad.tables.earlier import Integers
from pv4fad.tables.incremental.arrivals import Arrived, ArrivedLegs
from pv4fad.tables.incremental.at_rest import Arrays, joined, part_of
from pv4fad.tables.incremental.legs import NO_ROW
from pv4fad.tables.incremental.numbering import NUMBER_BITS, ByNumber, keys
from pv4fad.tables.incremental.timed_sums import FOREVER, NEVER, TimedSums

_SENT, _RECEIVED, _PAIR, _PAYEES, _PAYERS = range(5)
_SIDES = (ORDERING, BENEFICIARY)
# Of relations, for payees and payers: each with a kind for every window.
_WINDOWS = (DAY, WEEK)
_BEGAN, _ENDED = {_PAYEES: 0, _PAYERS: 2}, {_PAYEES: 4, _PAYERS: 6}


_Entries = tuple[Integers, ...]
"""Key, time, values."""


@dataclass(frozen=True)
class _Edges:
    """Payments."""

    payer: Integers
    payee: Integers
    amount: Integers  # hundredths
    time: Integers

    @property
    def pair(self) -> Integers:
        return keys(_PAIR, self.payer, self.payee)

    def at(self, which: NDArray[Any]) -> _Edges:
        return _Edges(*(getattr(self, column.name)[which] for column in fields(self)))


def _of_edges(edges: _Edges, sign: int) -> _Entries:
    key = [keys(_SENT, edges.payer), keys(_RECEIVED, edges.payee), edges.pair]
    n_kinds = len(key)
    return (
        np.concatenate(key),
        np.tile(edges.time, n_kinds),
        np.full(n_kinds * len(edges.time), sign),
        np.tile(sign * edges.amount, n_kinds),
    )


def _joined(*entries: _Entries) -> _Entries:
    return tuple(np.concatenate(parts) for parts in zip(*entries, strict=True))


@dataclass(frozen=True)
class _Gaps:
    """Between payments of a pair that follow each other, to be added (1) or taken back (−1).

    A gap without a left end comes before the first payment of its pair, one without a right end
    after the last.
    """

    payer: Integers
    payee: Integers
    left: Integers  # NEVER: it has none
    right: Integers  # FOREVER
    sign: Integers

    @classmethod
    def of(cls, *parts: tuple[_Edges, Integers, Integers, int]) -> Self:
        """Edges of the pairs, left and right ends, sign."""
        return cls(
            np.concatenate([edges.payer for edges, *_ in parts]),
            np.concatenate([edges.payee for edges, *_ in parts]),
            np.concatenate([left for _, left, *_ in parts]),
            np.concatenate([right for *_, right, _ in parts]),
            np.concatenate([np.full(len(left), sign) for _, left, _, sign in parts]),
        )

    def first_payments(self) -> _Entries:
        new = (self.left == NEVER) & (self.right != FOREVER)
        payer, payee, sign = self.payer[new], self.payee[new], np.tile(self.sign[new], 2)
        key = np.concatenate([keys(_PAYEES, payer), keys(_PAYERS, payee)])
        partner = np.concatenate([payee, payer])
        return key, np.tile(self.right[new], 2), sign, sign * partner

    def relations(self) -> _Entries:
        """Where they begin and end."""
        is_first, is_last = self.left == NEVER, self.right == FOREVER
        inside = ~is_first & ~is_last
        length = np.where(inside, self.right, 0) - np.where(inside, self.left, 0)
        entries = []
        for number, window in enumerate(_WINDOWS):
            apart = length > window
            begins, ends = ~is_last & (is_first | apart), ~is_first & (is_last | apart)
            for kind, account in ((_PAYEES, self.payer), (_PAYERS, self.payee)):
                for kinds, time, which in (
                    (_BEGAN, self.right, begins),
                    (_ENDED, self.left, ends),
                ):
                    key = keys(kinds[kind] + number, account[which])
                    entries.append((key, time[which], self.sign[which]))
        return _joined(*entries)


class PaymentGraph:
    """Who has paid whom, in the messages so far."""

    def __init__(self) -> None:
        self._log, self._relations = TimedSums(2), TimedSums(1)
        # By number of the message: the edge that it makes if it is the first leg of its payment.
        self._payer, self._payee, self._amount = ByNumber(0), ByNumber(0), ByNumber(0)

    def add(self, arrived: Arrived, legs: ArrivedLegs, amount: NDArray[np.float64]) -> None:
        """Messages that `Arrivals` has just taken."""
        ordering, beneficiary = arrived.account[:, ORDERING], arrived.account[:, BENEFICIARY]
        for column, values in (
            (self._payer, ordering),
            (self._payee, beneficiary),
            (self._amount, hundredths(amount)),
        ):
            column.reach(legs.rows.stop)[legs.rows] = values
        changed = legs.changed
        for number in np.flatnonzero(changed.before != NO_ROW):
            one = slice(number, number + 1)
            self._take_back(self._edges(changed.before[one], changed.began_before[one]))
        self._add(self._edges(changed.now, changed.begins_now))

    def _edges(self, row: Integers, time: Integers) -> _Edges:
        """As messages make them."""
        columns = (self._payer, self._payee, self._amount)
        payer, payee, amount = (column.values[row] for column in columns)
        return _Edges(payer, payee, amount, time)

    def _add(self, edges: _Edges) -> None:
        edges = edges.at(np.lexsort((edges.time, edges.pair)))
        pair, time = edges.pair, edges.time
        before, after = self._log.last(pair, time + 1), self._log.next_from(pair, time + 1)
        # Edges of one pair after the same earlier one follow each other in one gap.
        follows = (pair[1:] == pair[:-1]) & (before[1:] == before[:-1])
        outer = np.zeros(min(len(pair), 1), bool)
        opens, closes = ~np.append(outer, follows), ~np.append(follows, outer)
        previous = np.where(opens, before, np.append(time[:1], time[:-1]))
        gaps = _Gaps.of(
            (edges.at(opens), before[opens], after[opens], -1),
            (edges, previous, time, 1),
            (edges.at(closes), time[closes], after[closes], 1),
        )
        self._log.add(*_joined(_of_edges(edges, 1), gaps.first_payments()))
        self._relations.add(*gaps.relations())

    def _take_back(self, edge: _Edges) -> None:
        """One edge."""
        pair, time = edge.pair, edge.time
        self._log.add(*_of_edges(edge, -1))
        before, after = self._log.last(pair, time + 1), self._log.next_from(pair, time + 1)
        gaps = _Gaps.of(
            (edge, before, time, -1),
            (edge, time, after, -1),
            (edge, before, after, 1),
        )
        self._log.add(*gaps.first_payments())
        self._relations.add(*gaps.relations())

    # Features.

    def features(self, arrived: Arrived, legs: ArrivedLegs) -> dict[str, NDArray[np.generic]]:
        """`GRAPH_MEANINGS` of messages just added, by row."""
        time = legs.began
        ordering, beneficiary = arrived.account[:, ORDERING], arrived.account[:, BENEFICIARY]
        log = _Answers(self._log, _LOG_QUESTIONS, arrived.account, time)
        relations = _Answers(self._relations, _RELATION_QUESTIONS, arrived.account, time)

        def count(kind: int, side: int, window: int = 0) -> Integers:
            return log.within(0, kind, side, window)

        def amount(kind: int, side: int, window: int = 0) -> NDArray[np.float64]:
            return log_of_hundredths(log.within(1, kind, side, window))

        def partners(kind: int, side: int, window: int) -> Integers:
            number = _WINDOWS.index(window)
            began = relations.of(0, _BEGAN[kind] + number, side)
            return began - relations.of(0, _ENDED[kind] + number, side, window)

        paid, was_paid, beneficiary_was_paid, pair_paid = self._recency(
            time,
            keys(_SENT, ordering),
            keys(_RECEIVED, ordering),
            keys(_RECEIVED, beneficiary),
            keys(_PAIR, ordering, beneficiary),
        )
        return {
            "ordering_received": count(_RECEIVED, ORDERING),
            "beneficiary_sent": count(_SENT, BENEFICIARY),
            "ordering_payees": count(_PAYEES, ORDERING),
            "ordering_payers": count(_PAYERS, ORDERING),
            "beneficiary_payees": count(_PAYEES, BENEFICIARY),
            "beneficiary_payers": count(_PAYERS, BENEFICIARY),
            "ordering_sent_1d": count(_SENT, ORDERING, DAY),
            "ordering_sent_7d": count(_SENT, ORDERING, WEEK),
            "ordering_payees_1d": partners(_PAYEES, ORDERING, DAY),
            "ordering_payees_7d": partners(_PAYEES, ORDERING, WEEK),
            "beneficiary_received_1d": count(_RECEIVED, BENEFICIARY, DAY),
            "beneficiary_received_7d": count(_RECEIVED, BENEFICIARY, WEEK),
            "beneficiary_payers_1d": partners(_PAYERS, BENEFICIARY, DAY),
            "beneficiary_payers_7d": partners(_PAYERS, BENEFICIARY, WEEK),
            "ordering_sent_amount": amount(_SENT, ORDERING),
            "ordering_received_amount": amount(_RECEIVED, ORDERING),
            "beneficiary_sent_amount": amount(_SENT, BENEFICIARY),
            "beneficiary_received_amount": amount(_RECEIVED, BENEFICIARY),
            "ordering_sent_amount_1d": amount(_SENT, ORDERING, DAY),
            "ordering_received_amount_1d": amount(_RECEIVED, ORDERING, DAY),
            "beneficiary_received_amount_1d": amount(_RECEIVED, BENEFICIARY, DAY),
            "ordering_sent_recency": paid,
            "ordering_received_recency": was_paid,
            "beneficiary_received_recency": beneficiary_was_paid,
            "pair_recency": pair_paid,
            "reverse_pair_seen": self._log.sums(keys(_PAIR, beneficiary, ordering), time)[0],
            "cycles_closed": self._cycles_closed(
                ordering, beneficiary, time, count(_PAYEES, BENEFICIARY), count(_PAYERS, ORDERING)
            ),
        }

    def _recency(self, time: Integers, *key: Integers) -> NDArray[np.float64]:
        """(keys, rows)."""
        last = self._log.last(np.concatenate(key), np.tile(time, len(key))).reshape(len(key), -1)
        exists = last != NEVER
        return recency((time - np.where(exists, last, time), exists))

    def _cycles_closed(
        self,
        ordering: Integers,
        beneficiary: Integers,
        time: Integers,
        n_payees: Integers,
        n_payers: Integers,
    ) -> Integers:
        """As `Neighbours.cycles_closed`, of payees of the beneficiary and payers of the other."""
        fewest = np.minimum(n_payees, n_payers)
        found = np.where(fewest > MOST_NEIGHBOURS, -1, 0)
        searched = (fewest > 0) & (fewest <= MOST_NEIGHBOURS)
        from_beneficiary = n_payees <= n_payers
        for kind, rows, account in (
            (_PAYEES, np.flatnonzero(searched & from_beneficiary), beneficiary),
            (_PAYERS, np.flatnonzero(searched & ~from_beneficiary), ordering),
        ):
            row, other = self._neighbours(keys(kind, account[rows]), time[rows])
            asked = rows[row]
            payer, payee = (
                (other, ordering[asked]) if kind == _PAYEES else (beneficiary[asked], other)
            )
            closes = self._log.sums(keys(_PAIR, payer, payee), time[asked])[0] > 0
            found[rows] = np.bincount(row[closes], minlength=len(rows))
        return found

    def _neighbours(self, key: Integers, time: Integers) -> tuple[Integers, Integers]:
        """The number of the question, and each of its neighbours once."""
        number, (sign, partner) = self._log.entries(key, time)
        distinct, which = np.unique(keys(0, number, sign * partner), return_inverse=True)
        net = np.zeros(len(distinct), np.int64)
        np.add.at(net, which.reshape(-1), sign)
        distinct = distinct[net > 0]  # the others were taken back
        return distinct >> NUMBER_BITS, distinct & ((1 << NUMBER_BITS) - 1)

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        parts = {"log": self._log.to_arrays(), "relations": self._relations.to_arrays()}
        return joined(parts) | {
            "payer": self._payer.values.copy(),
            "payee": self._payee.values.copy(),
            "amount": self._amount.values.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        found = cls()
        found._log = TimedSums.from_arrays(2, part_of(arrays, "log"))
        found._relations = TimedSums.from_arrays(1, part_of(arrays, "relations"))
        found._payer, found._payee, found._amount = (
            ByNumber(0, arrays[name]) for name in ("payer", "payee", "amount")
        )
        return found


# Kind of entry, side of the payment whose account is asked about, how long before the payment.
_Question = tuple[int, int, int]
_LOG_QUESTIONS: tuple[_Question, ...] = (
    *((kind, side, 0) for kind in (_SENT, _RECEIVED, _PAYEES, _PAYERS) for side in _SIDES),
    *((_SENT, ORDERING, window) for window in _WINDOWS),
    (_RECEIVED, ORDERING, DAY),
    *((_RECEIVED, BENEFICIARY, window) for window in _WINDOWS),
)
_RELATION_QUESTIONS: tuple[_Question, ...] = tuple(
    question
    for kind, side in ((_PAYEES, ORDERING), (_PAYERS, BENEFICIARY))
    for number, window in enumerate(_WINDOWS)
    for question in ((_BEGAN[kind] + number, side, 0), (_ENDED[kind] + number, side, window))
)


class _Answers:
    """Sums of the questions, all asked at once."""

    def __init__(
        self, sums: TimedSums, questions: Sequence[_Question], account: Integers, time: Integers
    ) -> None:
        found = sums.sums(
            np.concatenate([keys(kind, account[:, side]) for kind, side, _ in questions]),
            np.concatenate([time - window for *_, window in questions]),
        )
        self._found = found.reshape(len(found), len(questions), len(time))
        self._place = {question: place for place, question in enumerate(questions)}

    def of(self, value: int, kind: int, side: int, window: int = 0) -> Integers:
        """The n-th value, of what is earlier than the payment by more than the window."""
        return np.asarray(self._found[value, self._place[kind, side, window]])

    def within(self, value: int, kind: int, side: int, window: int) -> Integers:
        """The n-th value, of what lies within the window; of all that is earlier if it is 0."""
        found = self.of(value, kind, side)
        return found - self.of(value, kind, side, window) if window else found
