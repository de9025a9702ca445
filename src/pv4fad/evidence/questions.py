"""Which accounts to ask about, one bit each, and the alerts that follow.

A payment alerts by itself if its own hazard h0 reaches the threshold τ.  Otherwise, on either
side, with the other taken as ordinary, it would alert if its account were of one of the classes of
some set of the chain (`model`): the larger the hazard, the larger the set.  If that set is empty,
nothing depends on the bank, and nothing is asked.

    round i = 0, 1, …   for every account with a payment that does not alert yet, and that would
                        alert if the account were in A_i or a smaller set: is it in A_i?

Questions are about accounts, not payments.  Every answer is kept, with all that follows from it
because the sets are nested, so each (account, set) is asked about at most once in an epoch.  As
soon as as many payments alert as there may be alerts, the remaining rounds are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, OrderError, ProtocolError
from pv4fad.evidence.decisions import Decisions
from pv4fad.evidence.knowledge import own_hazard
from pv4fad.evidence.model import EvidenceModel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Known = NDArray[np.int8]

UNKNOWN = -1


@dataclass(frozen=True)
class EvidenceRows:
    """Payments to score, as the payment network sees them.  Columns of (n, 2) are sides."""

    local_scores: NDArray[np.floating] = field(repr=False)  # (n,)
    is_first: NDArray[np.bool_] = field(repr=False)  # (n,)
    stratum: Integers = field(repr=False)  # (n, 2)
    hit: NDArray[np.bool_] = field(repr=False)  # (n, 2)
    account: Integers = field(repr=False)
    """(n, 2): numbers of accounts, those of `known`."""
    askable: NDArray[np.bool_] = field(repr=False)
    """(n, 2): whether the account is at an institution of the federation."""

    def __post_init__(self) -> None:
        n = len(self.local_scores)
        sides = (self.stratum, self.hit, self.account, self.askable)
        if self.is_first.shape != (n,) or any(one.shape != (n, 2) for one in sides):
            raise DataError("rows of evidence differ in number")

    def __len__(self) -> int:
        return len(self.local_scores)


def nothing_known(n_accounts: int, model: EvidenceModel) -> Known:
    """(accounts, sets of the chain): what is known when an epoch begins."""
    return np.full((n_accounts, len(model.chain)), UNKNOWN, np.int8)


def complete(known: Known) -> Known:
    """With all that follows because the sets are nested: in A_i is in every later set."""
    inside = np.logical_or.accumulate(known == 1, axis=1)
    outside = np.logical_or.accumulate((known == 0)[:, ::-1], axis=1)[:, ::-1]
    return np.where(inside, 1, np.where(outside, 0, UNKNOWN)).astype(np.int8)


def answers_of(chain_set: Sequence[int], classes: NDArray[np.integer]) -> NDArray[np.int8]:
    """Whether each of these classes is in the set: what a trusted third party answers."""
    return np.isin(classes, chain_set).astype(np.int8)


class Questions:
    """One batch.  Call `ask(i)` and `take(i, ...)` for each round in turn, then `outcome()`."""

    def __init__(
        self, model: EvidenceModel, rows: EvidenceRows, known: Known, alert_share: float
    ) -> None:
        """`known`: (accounts, sets of the chain), -1 unknown, 0 or 1; it is not changed."""
        if known.ndim != 2 or known.shape[1] != len(model.chain):
            raise DataError(f"answers of shape {known.shape} for {len(model.chain)} sets")
        if rows.account.size and not 0 <= rows.account.min() <= rows.account.max() < len(known):
            raise DataError("rows of evidence name an account that has no number")
        self._model, self._rows, self._known = model, rows, known.copy()
        own = model.knowledge
        local = own.scale.log_odds(rows.local_scores)
        self._own = own_hazard(local, own.history, rows.is_first, rows.stratum, rows.hit)
        threshold = model.threshold(alert_share)
        self._local_alert = self._own >= threshold
        hazard = self._own[:, np.newaxis, np.newaxis] + self._by_row(model.chain_hazard)
        open_sides = rows.askable & ~self._local_alert[:, np.newaxis]
        # The set of the chain for which a side alerts, as the number of its kinds; 0 is none.
        self._set = np.where(open_sides, (hazard >= threshold).sum(axis=-1), 0)
        self._budget = ceil(alert_share * len(rows))
        self._asked_payment = np.zeros(len(rows), np.bool_)
        self._asked: list[Integers] = []
        self._taken = 0

    @property
    def n_rounds(self) -> int:
        """The same for every batch."""
        return len(self._model.kinds)

    def ask(self, round_: int) -> Integers:
        """The accounts to ask about, sorted, each once; after the answers of earlier rounds."""
        if round_ != self._taken or round_ >= self.n_rounds:
            raise OrderError(f"round {round_} of {self.n_rounds}: it is the turn of {self._taken}")
        if len(self._asked) == round_:
            self._asked.append(self._open(round_))
        return self._asked[round_]

    def take(self, round_: int, accounts: Integers, bits: NDArray[np.integer]) -> None:
        """The answers: whether each account of `ask(round_)` is in the set of this round."""
        if not np.array_equal(accounts, self.ask(round_)) or bits.shape != accounts.shape:
            raise ProtocolError(f"round {round_}: answers to something that was not asked")
        if not np.isin(bits, (0, 1)).all():
            raise ProtocolError(f"round {round_}: an answer is neither 0 nor 1")
        inside, outside = accounts[bits == 1], accounts[bits == 0]
        self._known[inside, round_:] = 1
        self._known[outside, : round_ + 1] = 0
        self._taken += 1

    def outcome(self) -> Decisions:
        """After the last round."""
        if self._taken < self.n_rounds:
            raise OrderError(f"round {self._taken} of {self.n_rounds} is still to come")
        through_bank = self._bank_alerts()
        hazard = self._own + np.where(through_bank, self._evidence(), 0.0).sum(axis=1)
        return Decisions(
            -np.expm1(-hazard),
            -np.expm1(-self._own),
            self._local_alert,
            np.asarray(through_bank.any(axis=1)),
            self._asked_payment,
            len(np.unique(np.concatenate(self._asked))),
            self._known,
        )

    def _open(self, round_: int) -> Integers:
        """Of a round; also marks the payments that are asked about."""
        alert = self._local_alert | self._bank_alerts().any(axis=1)
        if alert.sum() >= self._budget:
            return np.empty(0, np.int64)
        unknown = self._known[self._rows.account, round_] == UNKNOWN
        wanted = (self._set > round_) & ~alert[:, np.newaxis] & unknown
        self._asked_payment |= wanted.any(axis=1)
        return np.unique(self._rows.account[wanted])

    def _bank_alerts(self) -> NDArray[np.bool_]:
        """(n, 2): sides whose account is known to be in their set."""
        bit = self._known[self._rows.account, np.maximum(self._set, 1) - 1]
        return np.asarray((self._set > 0) & (bit == 1))

    def _evidence(self) -> Floats:
        """(n, 2): the expected evidence over the kinds that the answers leave open.

        Of accounts that are known to be in a set; of others it means nothing.
        """
        known = self._known[self._rows.account]  # (n, 2, sets): zeros, unknown, then ones
        smallest = (known != 1).sum(axis=-1, keepdims=True)
        excluded = (known == 0).sum(axis=-1, keepdims=True)
        kind = np.arange(self.n_rounds)
        possible = (kind >= excluded) & (kind <= smallest)
        weight = possible * (self._by_row(self._model.share) + 1e-12)
        hazard = self._by_row(self._model.hazard)
        return np.asarray((weight * hazard).sum(axis=-1) / weight.sum(axis=-1).clip(1e-300))

    def _by_row(self, table: Floats) -> Floats:
        """(n, 2, kinds), from (side, first, stratum, kind)."""
        first = self._rows.is_first.astype(np.int64)
        sides = range(self._rows.stratum.shape[1])
        return np.stack([table[one, first, self._rows.stratum[:, one]] for one in sides], axis=1)
