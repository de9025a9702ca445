"""The payment network's graph features: who has paid whom, how much, how often and how lately.

Accounts are the nodes, payments the edges.  A payment is counted once, with its first leg: the row
whose timestamp is the smallest of its UETR.  All legs of a payment see the graph as it was when the
payment began: the payments that began strictly earlier.  Hence a row sees strictly earlier rows
only, and never another leg of its own payment.

    windows      [T − window, T), T the time when the row's payment began
    amounts      log(1 + sum); sums are of hundredths, whatever the currency
    recency      1 / (1 + hours since), 0 where it never happened
    cycles       of three accounts, the payment being the last side

A payment o → b closes a cycle through x if b has paid x and x has paid o, each strictly earlier.
The neighbours of one end are looked up as neighbours of the other, beginning at the end that has
fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.features.payment_log import Asked, PaymentLog, Payments, Questions, RankIndex
from pv4fad.tables.earlier import Integers, least_of_group

Feature = tuple[str, NDArray[np.generic]]
"""Its name and values."""

MOST_NEIGHBOURS = 64
"""Between two accounts that both have more, cycles are not searched: −1."""

_CANDIDATES_AT_ONCE = 1_000_000


class Neighbours:
    """Who has paid whom, each pair once, at the rank of the instant when it first did."""

    def __init__(
        self, payer: Integers, payee: Integers, rank: Integers, n_accounts: int, stride: int
    ) -> None:
        """`stride`: of the questions that will be asked."""
        self._payer, self._payee, self._n_accounts = payer, payee, n_accounts
        self._by_payer = RankIndex(payer, rank, n_accounts, stride)
        self._by_payee = RankIndex(payee, rank, n_accounts, stride)
        pair = payer * n_accounts + payee
        order = np.argsort(pair)
        self._pair, self._rank = pair[order], rank[order]

    def cycles_closed(self, payers: Asked, payees: Asked, rank: Integers) -> Integers:
        """For each ordering account that pays a beneficiary at an instant: how many accounts x."""
        ordering, beneficiary = payers.by_question(payers.key), payees.by_question(payees.key)
        n_payees = payees.by_question(self._by_payer.before(payees))
        n_payers = payers.by_question(self._by_payee.before(payers))
        fewest = np.minimum(n_payees, n_payers)
        found = np.where(fewest > MOST_NEIGHBOURS, -1, 0)
        searched = (fewest > 0) & (fewest <= MOST_NEIGHBOURS)
        from_beneficiary = n_payees <= n_payers
        for rows in _blocks(np.flatnonzero(searched & from_beneficiary), fewest):
            row, edge = _expand(self._by_payer, beneficiary[rows], n_payees[rows])
            asked = rows[row]
            closes = self._has_paid(self._payee[edge], ordering[asked], rank[asked])
            found[rows] = np.bincount(row[closes], minlength=len(rows))
        for rows in _blocks(np.flatnonzero(searched & ~from_beneficiary), fewest):
            row, edge = _expand(self._by_payee, ordering[rows], n_payers[rows])
            asked = rows[row]
            closes = self._has_paid(beneficiary[asked], self._payer[edge], rank[asked])
            found[rows] = np.bincount(row[closes], minlength=len(rows))
        return found

    def _has_paid(self, payer: Integers, payee: Integers, before: Integers) -> NDArray[np.bool_]:
        pair = payer * self._n_accounts + payee
        place = np.minimum(np.searchsorted(self._pair, pair), len(self._pair) - 1)
        result: NDArray[np.bool_] = (self._pair[place] == pair) & (self._rank[place] < before)
        return result


def _blocks(rows: Integers, cost: Integers) -> list[Integers]:
    """The rows in parts, each of about `_CANDIDATES_AT_ONCE` candidates."""
    part = np.cumsum(cost[rows]) // _CANDIDATES_AT_ONCE
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1)


def _expand(index: RankIndex, key: Integers, count: Integers) -> tuple[Integers, Integers]:
    """The first `count` entries of each key: the number of the key, and the entry."""
    number = np.repeat(np.arange(len(key)), count)
    within = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    return number, index.order[index.start(key)[number] + within]


GRAPH_MEANINGS: dict[str, str] = {
    "ordering_received": "earlier payments to the ordering account",
    "beneficiary_sent": "earlier payments of the beneficiary account",
    "ordering_payees": "accounts that the ordering account has paid",
    "ordering_payers": "accounts that have paid the ordering account",
    "beneficiary_payees": "accounts that the beneficiary account has paid",
    "beneficiary_payers": "accounts that have paid the beneficiary account",
    "ordering_sent_1d": "payments of the ordering account within a day",
    "ordering_sent_7d": "payments of the ordering account within seven days",
    "ordering_payees_1d": "accounts that the ordering account has paid within a day (fan-out)",
    "ordering_payees_7d": "accounts that the ordering account has paid within seven days",
    "beneficiary_received_1d": "payments to the beneficiary account within a day",
    "beneficiary_received_7d": "payments to the beneficiary account within seven days",
    "beneficiary_payers_1d": "accounts that have paid the beneficiary within a day (fan-in)",
    "beneficiary_payers_7d": "accounts that have paid the beneficiary within seven days",
    "ordering_sent_amount": "amount that the ordering account has sent",
    "ordering_received_amount": "amount that the ordering account has received",
    "beneficiary_sent_amount": "amount that the beneficiary account has sent",
    "beneficiary_received_amount": "amount that the beneficiary account has received",
    "ordering_sent_amount_1d": "amount that the ordering account has sent within a day",
    "ordering_received_amount_1d": "amount that the ordering account has received within a day",
    "beneficiary_received_amount_1d": "amount that the beneficiary has received within a day",
    "pair_recency": "how lately the ordering account paid this beneficiary account",
    "ordering_sent_recency": "how lately the ordering account paid",
    "ordering_received_recency": "how lately the ordering account was paid",
    "beneficiary_received_recency": "how lately the beneficiary account was paid",
    "reverse_pair_seen": "earlier payments from the beneficiary to the ordering account",
    "cycles_closed": "accounts that the beneficiary has paid and that have paid the ordering "
    f"account; −1 where the former and the latter are more than {MOST_NEIGHBOURS}",
}

HOUR = 3_600_000_000  # timestamps are in microseconds
DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR
# Sums of hundredths stay exact for 900,000 payments of one account at the largest amount counted.
_LARGEST_AMOUNT = 1e11


@dataclass(frozen=True)
class GraphRows:
    """The columns that the graph is made of, by row."""

    time: Integers  # microseconds
    payment: Integers  # code of the UETR
    is_first_leg: NDArray[np.bool_]  # one row of each payment
    ordering: Integers  # code of the account; both sides have codes in common
    beneficiary: Integers
    amount: NDArray[np.float64]


def graph_features(rows: GraphRows, n_history: int) -> list[Iterator[Feature]]:
    """`GRAPH_MEANINGS`, of the rows after the first `n_history`: several parts, which can be
    computed at the same time."""
    began = least_of_group(rows.payment, rows.time)
    edges = np.flatnonzero(rows.is_first_leg)
    n_accounts = int(max(rows.ordering.max(initial=-1), rows.beneficiary.max(initial=-1))) + 1
    sides = np.stack([rows.ordering, rows.beneficiary])
    # Both directions at once: pairs that are asked about need not have paid.
    known, pair = np.unique(sides * n_accounts + sides[::-1], return_inverse=True)
    forward, backward = pair.reshape(2, -1)
    payments = Payments(rows.time[edges], forward[edges], hundredths(rows.amount[edges]))
    questions = Questions(began[n_history:], payments)
    sent = PaymentLog(rows.ordering[edges], n_accounts, questions)
    received = PaymentLog(rows.beneficiary[edges], n_accounts, questions)
    pairs = PaymentLog(forward[edges], len(known), questions)
    ordering, beneficiary, same_pair, reverse_pair = (
        Asked(key[n_history:], questions)
        for key in (rows.ordering, rows.beneficiary, forward, backward)
    )
    first, _ = questions.relations(None)
    neighbours = Neighbours(
        rows.ordering[edges][first],
        rows.beneficiary[edges][first],
        questions.payment_rank[first],
        n_accounts,
        questions.stride,
    )

    def between() -> Iterator[Feature]:
        yield "pair_recency", same_pair.by_question(recency(pairs.since_last(same_pair)))
        yield "reverse_pair_seen", reverse_pair.by_question(pairs.count(reverse_pair))
        yield "cycles_closed", neighbours.cycles_closed(ordering, beneficiary, questions.rank())

    return [
        _in_order(ordering, _of_ordering(ordering, sent, received)),
        _in_order(beneficiary, _of_beneficiary(beneficiary, sent, received)),
        between(),
    ]


def _in_order(asked: Asked, features: Iterator[Feature]) -> Iterator[Feature]:
    return ((name, asked.by_question(values)) for name, values in features)


def _of_ordering(asked: Asked, sent: PaymentLog, received: PaymentLog) -> Iterator[Feature]:
    yield "ordering_received", received.count(asked)
    yield "ordering_payees", sent.partners(asked)
    yield "ordering_payers", received.partners(asked)
    yield "ordering_sent_1d", sent.count(asked, DAY)
    yield "ordering_sent_7d", sent.count(asked, WEEK)
    yield "ordering_payees_1d", sent.partners(asked, DAY)
    yield "ordering_payees_7d", sent.partners(asked, WEEK)
    yield "ordering_sent_amount", log_of_hundredths(sent.total(asked))
    yield "ordering_received_amount", log_of_hundredths(received.total(asked))
    yield "ordering_sent_amount_1d", log_of_hundredths(sent.total(asked, DAY))
    yield "ordering_received_amount_1d", log_of_hundredths(received.total(asked, DAY))
    yield "ordering_sent_recency", recency(sent.since_last(asked))
    yield "ordering_received_recency", recency(received.since_last(asked))


def _of_beneficiary(asked: Asked, sent: PaymentLog, received: PaymentLog) -> Iterator[Feature]:
    yield "beneficiary_sent", sent.count(asked)
    yield "beneficiary_payees", sent.partners(asked)
    yield "beneficiary_payers", received.partners(asked)
    yield "beneficiary_received_1d", received.count(asked, DAY)
    yield "beneficiary_received_7d", received.count(asked, WEEK)
    yield "beneficiary_payers_1d", received.partners(asked, DAY)
    yield "beneficiary_payers_7d", received.partners(asked, WEEK)
    yield "beneficiary_sent_amount", log_of_hundredths(sent.total(asked))
    yield "beneficiary_received_amount", log_of_hundredths(received.total(asked))
    yield "beneficiary_received_amount_1d", log_of_hundredths(received.total(asked, DAY))
    yield "beneficiary_received_recency", recency(received.since_last(asked))


def hundredths(amount: NDArray[np.float64]) -> Integers:
    """Amounts as they enter sums."""
    return np.rint(np.minimum(amount, _LARGEST_AMOUNT) * 100.0).astype(np.int64)


def log_of_hundredths(total: Integers) -> NDArray[np.float64]:
    """Sums of amounts as features."""
    return np.log1p(total / 100.0)


def recency(since: tuple[Integers, NDArray[np.bool_]]) -> NDArray[np.float64]:
    """How lately something happened, as a feature, from the time since and whether it did."""
    elapsed, exists = since
    return np.where(exists, 1.0 / (1.0 + elapsed / HOUR), 0.0)
