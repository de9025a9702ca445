"""What the payment network knows about an account from its own labelled training payments.

A payment is judged, on either side, within the *stratum* of its account: how many other
counterparties the account has in training payments of label 0.

    stratum    0    1      2
    others     0    1-3    4 or more

With q such counterparties in all, the others are q for a payment of label 1, which is not among
them, and q - 1 for one of label 0.  A new payment has q if the two accounts deal for the first
time, and q - 1 if not.  Accounts are bare ids, whatever bank they are at; they are numbered as in
training, and -1 is an account that training has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.tree import Side

N_STRATA = 3
_MOST_OTHERS = np.array([0, 3])  # of all strata but the last

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AccountHistory:
    """Of each account, by side."""

    counterparties: Integers = field(repr=False)
    """(accounts, 2): distinct, in payments of label 0."""
    hit: NDArray[np.bool_] = field(repr=False)
    """(accounts, 2): whether there is a payment of label 1."""

    @classmethod
    def of(cls, account: Integers, labels: NDArray[np.int8], n_accounts: int) -> Self:
        """`account`: (payments, 2), the accounts of both sides."""
        normal, anomalous = account[labels == 0], account[labels == 1]
        counterparties = np.zeros((n_accounts, len(Side)), np.int64)
        hit = np.zeros((n_accounts, len(Side)), np.bool_)
        for side in Side:
            pairs = np.unique(normal[:, side] * n_accounts + normal[:, 1 - side])
            counterparties[:, side] = np.bincount(pairs // n_accounts, minlength=n_accounts)
            hit[anomalous[:, side], side] = True
        return cls(counterparties, hit)

    def training_strata(self, account: Integers, labels: NDArray[np.int8]) -> Integers:
        """(payments, 2), of the payments that this history was made of."""
        return self._strata(account, labels == 0)

    def strata(self, account: Integers, is_first: NDArray[np.bool_]) -> Integers:
        """(payments, 2), of new payments."""
        return self._strata(account, ~is_first)

    def hits(self, account: Integers) -> NDArray[np.bool_]:
        """(payments, 2): whether the account of this side has a training payment of label 1."""
        return self._of(self.hit, account)

    def _strata(self, account: Integers, dealt_before: NDArray[np.bool_]) -> Integers:
        others = self._of(self.counterparties, account) - dealt_before[:, np.newaxis]
        return np.searchsorted(_MOST_OTHERS, others, side="left").astype(np.int64)

    @staticmethod
    def _of(known: NDArray[Any], account: Integers) -> NDArray[Any]:
        nothing = np.zeros((1, len(Side)), known.dtype)  # of account -1
        sides = [np.concatenate([known, nothing])[account[:, side], side] for side in Side]
        return np.stack(sides, axis=1)
