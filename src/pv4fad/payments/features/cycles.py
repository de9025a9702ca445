"""Cycles of three accounts that a payment closes.

A payment o → b closes a cycle through x if b has paid x and x has paid o, each strictly earlier.
The neighbours of one end are looked up as neighbours of the other, beginning at the end that has
fewer of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.features.history import Integers
from pv4fad.payments.features.payment_log import RankIndex

MOST_NEIGHBOURS = 64
"""Between two accounts that both have more, cycles are not searched: −1."""

_CANDIDATES_AT_ONCE = 1_000_000


class Neighbours:
    """Who has paid whom, each pair once, at the rank of the instant when it first did."""

    def __init__(
        self, payer: Integers, payee: Integers, rank: Integers, n_accounts: int, n_instants: int
    ) -> None:
        self._payer, self._payee, self._n_accounts = payer, payee, n_accounts
        self._by_payer = RankIndex(payer, rank, n_accounts, n_instants)
        self._by_payee = RankIndex(payee, rank, n_accounts, n_instants)
        pair = payer * n_accounts + payee
        order = np.argsort(pair)
        self._pair, self._rank = pair[order], rank[order]

    def cycles_closed(self, ordering: Integers, beneficiary: Integers, rank: Integers) -> Integers:
        """For each ordering account that pays a beneficiary at an instant: how many accounts x."""
        n_payees = self._by_payer.before(beneficiary, rank)
        n_payers = self._by_payee.before(ordering, rank)
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
