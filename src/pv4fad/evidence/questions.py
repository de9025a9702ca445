"""Which accounts to ask about, one bit each, and the alerts that follow.

A payment alerts if its hazard reaches the threshold τ; by its score the alert has a level 1, 2 or 3
(`decisions.LEVELS`).  The payment network knows the own hazard h0.  On each side, with the others
taken as ordinary, it works out which kinds of account would raise the level: A.  If A is empty, as
it is for most payments and for alerts of level 3, no bank can change anything: nothing is asked.

    round i = 0, 1, …   for every account with a payment that no bank has raised yet, and whose A
                        has the i-th kind: is the account of this kind?

Questions are about accounts, not payments.  Every answer is kept, with all that follows from it
because an account has one kind, so each (account, kind) is asked about at most once in an epoch.
As soon as banks have raised as many payments as there may be alerts, the remaining rounds are
empty.  (Local alerts are not counted there: a local score that drifts must not switch banks off.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, OrderError, ProtocolError
from pv4fad.evidence.decisions import LEVELS, Decisions
from pv4fad.evidence.knowledge import own_hazard
from pv4fad.evidence.model import EvidenceModel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Known = NDArray[np.int8]

UNKNOWN = -1


@dataclass(frozen=True)
class EvidenceRows:
    """Payments to score, as the payment network sees them.  Columns of (n, sides) are sides."""

    local_scores: NDArray[np.floating] = field(repr=False)  # (n,)
    is_first: NDArray[np.bool_] = field(repr=False)  # (n,)
    stratum: Integers = field(repr=False)  # (n, sides)
    hit: NDArray[np.bool_] = field(repr=False)  # (n, sides)
    account: Integers = field(repr=False)
    """(n, sides): numbers of accounts, those of `known`."""
    askable: NDArray[np.bool_] = field(repr=False)
    """(n, sides): whether the account is at an institution of the federation."""

    def __post_init__(self) -> None:
        shape = (len(self.local_scores), self.stratum.shape[1])
        sides = (self.stratum, self.hit, self.account, self.askable)
        if self.is_first.shape != shape[:1] or any(one.shape != shape for one in sides):
            raise DataError("rows of evidence differ in number")

    def __len__(self) -> int:
        return len(self.local_scores)


def nothing_known(n_accounts: int, model: EvidenceModel) -> Known:
    """(accounts, kinds): what is known when an epoch begins."""
    return np.full((n_accounts, len(model.kinds)), UNKNOWN, np.int8)


def complete(known: Known) -> Known:
    """With all that follows because an account has one kind: one that is of some kind is of no
    other."""
    found = (known == 1).any(axis=1, keepdims=True) & (known != 1)
    return np.where(found, 0, known).astype(np.int8)


def answers_of(kind: Sequence[int], classes: NDArray[np.integer]) -> NDArray[np.int8]:
    """Whether each of these classes is of the kind: what a trusted third party answers."""
    return np.isin(classes, kind).astype(np.int8)


class Questions:
    """One batch.  Call `ask(i)` and `take(i, ...)` for each round in turn, then `outcome()`."""

    def __init__(
        self, model: EvidenceModel, rows: EvidenceRows, known: Known, alert_share: float
    ) -> None:
        """`known`: (accounts, kinds), -1 unknown, 0 or 1; it is not changed."""
        if known.ndim != 2 or known.shape[1] != len(model.kinds):
            raise DataError(f"answers of shape {known.shape} for {len(model.kinds)} kinds")
        if rows.account.size and not 0 <= rows.account.min() <= rows.account.max() < len(known):
            raise DataError("rows of evidence name an account that has no number")
        self._model, self._rows, self._known = model, rows, known.copy()
        own = model.knowledge
        local = own.scale.log_odds(rows.local_scores)
        self._own = own_hazard(local, own.history, rows.is_first, rows.stratum, rows.hit)
        threshold = model.threshold(alert_share)
        self._local_alert = self._own >= threshold
        self._adds = self._by_row(model.hazard)  # (n, sides, kinds)
        with_kind = self._own[:, np.newaxis, np.newaxis] + self._adds
        raised = _level(with_kind, threshold) > _level(self._own, threshold)[:, None, None]
        self._raising = raised & rows.askable[:, :, np.newaxis]
        """(n, sides, kinds): the set A of each side."""
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
        """The answers: whether each account of `ask(round_)` is of the kind of this round."""
        if not np.array_equal(accounts, self.ask(round_)) or bits.shape != accounts.shape:
            raise ProtocolError(f"round {round_}: answers to something that was not asked")
        if not np.isin(bits, (0, 1)).all():
            raise ProtocolError(f"round {round_}: an answer is neither 0 nor 1")
        self._known[accounts[bits == 1]] = 0  # of no other kind
        self._known[accounts, round_] = bits
        self._taken += 1

    def outcome(self) -> Decisions:
        """After the last round."""
        if self._taken < self.n_rounds:
            raise OrderError(f"round {self._taken} of {self.n_rounds} is still to come")
        found = self._found()
        hazard = self._own + np.where(found, self._adds, 0.0).sum(axis=(1, 2))
        return Decisions(
            -np.expm1(-hazard),
            -np.expm1(-self._own),
            self._local_alert,
            np.asarray(found.any(axis=(1, 2))),
            self._asked_payment,
            len(np.unique(np.concatenate(self._asked))),
            self._known,
        )

    def _open(self, round_: int) -> Integers:
        """Of a round; also marks the payments that are asked about."""
        raised = np.asarray(self._found().any(axis=(1, 2)))
        if raised.sum() >= self._budget:
            return np.empty(0, np.int64)
        unknown = self._known[self._rows.account, round_] == UNKNOWN
        wanted = self._raising[:, :, round_] & ~raised[:, np.newaxis] & unknown
        self._asked_payment |= wanted.any(axis=1)
        return np.unique(self._rows.account[wanted])

    def _found(self) -> NDArray[np.bool_]:
        """(n, sides, kinds): sides that raise the level, and because of which kind."""
        return np.asarray(self._raising & (self._known[self._rows.account] == 1))

    def _by_row(self, table: Floats) -> Floats:
        """(n, sides, kinds), from (side, first, stratum, kind)."""
        first = self._rows.is_first.astype(np.int64)
        sides = range(self._rows.stratum.shape[1])
        return np.stack([table[one, first, self._rows.stratum[:, one]] for one in sides], axis=1)


def _level(hazard: Floats, threshold: float) -> Integers:
    """0 below the threshold, and then 1, 2, 3 by score."""
    level = 1 + np.searchsorted(-np.log1p(-np.array(LEVELS)), hazard, side="right")
    return np.where(hazard >= threshold, level, 0)
