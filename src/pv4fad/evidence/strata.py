"""What the payment network knows about an account from its own labelled training payments.

A payment is judged, on either side, within the *stratum* of its account: how many other
counterparties the account has in training payments of label 0.

    stratum    0    1      2
    others     0    1-3    4 or more

With q such counterparties in all, the others are q for a payment of label 1, which is not among
them, and q - 1 for one of label 0.  A new payment has q if its accounts deal for the first time,
and q - 1 if not.  A counterparty is the account on the other side; with more than two sides, those
on all other sides together; with one side only, every payment counts as one more, and a new one
always has q.  Accounts are bare ids, whatever bank they are at; they are numbered as in training,
and -1 is an account that training has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

N_STRATA = 3
_MOST_OTHERS = np.array([0, 3])  # of all strata but the last

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AccountHistory:
    """Of each account, by side."""

    counterparties: Integers = field(repr=False)
    """(accounts, sides): distinct, in payments of label 0."""
    hit: NDArray[np.bool_] = field(repr=False)
    """(accounts, sides): whether there is a payment of label 1."""

    @classmethod
    def of(cls, account: Integers, labels: NDArray[np.int8], n_accounts: int) -> Self:
        """`account`: (payments, sides), the accounts of all sides."""
        normal, anomalous = account[labels == 0], account[labels == 1]
        counterparties = np.zeros((n_accounts, account.shape[1]), np.int64)
        hit = np.zeros((n_accounts, account.shape[1]), np.bool_)
        for side in range(account.shape[1]):
            partner = _partners(normal, side)
            n_partners = int(partner.max(initial=-1)) + 1
            pairs = np.unique(normal[:, side] * n_partners + partner)
            partners = np.bincount(pairs // max(n_partners, 1), minlength=n_accounts)
            counterparties[:, side] = partners
            hit[anomalous[:, side], side] = True
        return cls(counterparties, hit)

    def training_strata(self, account: Integers, labels: NDArray[np.int8]) -> Integers:
        """(payments, sides), of the payments that this history was made of."""
        return self._strata(account, labels == 0)

    def strata(self, account: Integers, is_first: NDArray[np.bool_]) -> Integers:
        """(payments, sides), of new payments."""
        return self._strata(account, ~is_first & (account.shape[1] > 1))

    def hits(self, account: Integers) -> NDArray[np.bool_]:
        """(payments, sides): whether the account of this side has a training payment of label 1."""
        return self._of(self.hit, account)

    def _strata(self, account: Integers, dealt_before: NDArray[np.bool_]) -> Integers:
        others = self._of(self.counterparties, account) - dealt_before[:, np.newaxis]
        return np.searchsorted(_MOST_OTHERS, others, side="left").astype(np.int64)

    @staticmethod
    def _of(known: NDArray[Any], account: Integers) -> NDArray[Any]:
        found = np.zeros(account.shape, known.dtype)
        row, side = np.nonzero(account >= 0)
        found[row, side] = known[account[row, side], side]
        return found


def _partners(account: Integers, side: int) -> Integers:
    """(payments,): the number of the counterparty of this side."""
    others = np.delete(account, side, axis=1)
    if others.shape[1] == 0:
        return np.arange(len(account))
    if others.shape[1] == 1:
        return np.asarray(others[:, 0])
    return np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
