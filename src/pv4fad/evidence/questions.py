"""Which accounts to ask about in a batch, one bit each, round by round, and the alerts that follow.

    round i = 0, 1, …   for every account with a payment that no bank has raised yet, and whose A
                        (`judgement`) has the i-th kind: is the account of this kind?

Questions are about accounts, not payments.  Every answer is kept, with all that follows from it
because an account has one kind, so each (account, kind) is asked about at most once in an epoch.
As soon as banks have raised as many payments as there may be alerts, the remaining rounds are
empty.  (Local alerts are not counted there: a local score that drifts must not switch banks off.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, OrderError, ProtocolError
from pv4fad.evidence.decisions import BatchDecisions
from pv4fad.evidence.judgement import Integers, Judgement, Known


def answers_of(kind: Sequence[int], classes: NDArray[np.integer]) -> NDArray[np.int8]:
    """Whether each of these classes is of the kind: what a trusted third party answers."""
    return np.isin(classes, kind).astype(np.int8)


class Questions:
    """One batch.  Call `ask(i)` and `take(i, ...)` for each round in turn, then `outcome()`."""

    def __init__(self, judgement: Judgement, known: Known) -> None:
        """`known` is not changed."""
        account = judgement.account
        self.n_rounds = judgement.n_kinds
        """The same for every batch."""
        if known.ndim != 2 or known.shape[1] != self.n_rounds:
            raise DataError(f"answers of shape {known.shape} for {self.n_rounds} kinds")
        if account.size and not 0 <= account.min() <= account.max() < len(known):
            raise DataError("rows of evidence name an account that has no number")
        self._judgement, self._known = judgement, known.copy()
        self._budget = ceil(judgement.alert_share * len(judgement))
        self._asked_payment = np.zeros(len(judgement), np.bool_)
        self._asked: list[Integers] = []
        self._taken = 0

    def ask(self, round_: int) -> Integers:
        """The accounts to ask about, sorted, each once; after the answers of earlier rounds."""
        if round_ != self._taken or round_ >= self.n_rounds:
            raise OrderError(f"round {round_} of {self.n_rounds}: it is the turn of {self._taken}")
        if len(self._asked) == round_:
            self._asked.append(self._open(round_))
        return self._asked[round_]

    def take(self, round_: int, accounts: Integers, bits: NDArray[np.integer]) -> None:
        """The answers: whether each account of `ask(round_)` is of the kind of this round."""
        if not np.array_equal(accounts, self.ask(round_)) or bits.shape != accounts.shape:
            raise ProtocolError(f"round {round_}: answers to something that was not asked")
        if not np.isin(bits, (0, 1)).all():
            raise ProtocolError(f"round {round_}: an answer is neither 0 nor 1")
        self._known[accounts[bits == 1]] = 0  # of no other kind
        self._known[accounts, round_] = bits
        self._taken += 1

    def outcome(self) -> BatchDecisions:
        """After the last round."""
        if self._taken < self.n_rounds:
            raise OrderError(f"round {self._taken} of {self.n_rounds} is still to come")
        found = self._judgement.decisions(self._known)
        return BatchDecisions(
            found.score,
            found.own_score,
            found.local_alert,
            found.bank_alert,
            self._asked_payment,
            len(np.unique(np.concatenate(self._asked))),
            self._known,
        )

    def _open(self, round_: int) -> Integers:
        """Of a round; also marks the payments that are asked about."""
        raised = np.asarray(self._judgement.found(self._known).any(axis=(1, 2)))
        if raised.sum() >= self._budget:
            return np.empty(0, np.int64)
        wanted = self._judgement.wanted(self._known)[:, :, round_] & ~raised[:, np.newaxis]
        self._asked_payment |= wanted.any(axis=1)
        return np.unique(self._judgement.account[wanted])
