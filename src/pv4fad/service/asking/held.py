"""A batch of payments, and which of them wait for what.

A payment wants everything in the sets A of its sides that is not known in this epoch.  What can be
asked about is asked; the rest is taken as ordinary, and the decision says why:

    account not yet matched   the account is in no table
    bank not known            it is in the broadcast table, which is asked about in batches only
    bank not answering        the bank did not answer in time, or is not asked any more
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.lead.judging import JudgedPayments
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.service.asking.knowledge import Knowledge
from pv4fad.service.decisions import Decided, How

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Released:
    """Payments to decide with what is known now."""

    rows: Integers = field(repr=False)
    missing: Mask = field(repr=False)
    """Whether the answer of a bank is missing."""
    known: NDArray[np.int8] = field(repr=False)
    """(accounts of the batch, kinds)."""


class Held:
    """Of one call of `decide`."""

    def __init__(self, judged: JudgedPayments, rows: Integers, knowledge: Knowledge) -> None:
        """`rows`: the payments that are still to be decided."""
        self._judged, self._knowledge = judged, knowledge
        keys, judgement = judged.payments.keys, judged.judgement
        self._numbers = knowledge.numbers([hashed_id(key) for key in keys])
        self.left = np.zeros(len(judgement), np.bool_)
        self.left[rows] = True
        row, side, of_set = np.nonzero(judgement.wanted(self._known()))
        key = judgement.account[row, side]
        account = self._numbers[key]
        can = (account >= 0) & (account < knowledge.n_placed)
        self.row, self.account, self.set = row[can], account[can], of_set[can]
        """One entry for each question that can be asked, whatever it is about."""
        without_bank = np.array([bank is None for bank, _ in keys], np.bool_)[key[~can]]
        n = len(judgement)
        self._no_bank, self._unmatched = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._no_bank[row[~can][without_bank]] = True
        self._unmatched[row[~can][~without_bank]] = True
        self._asks = np.asarray(judgement.raising.any(axis=(1, 2)))
        self.taken_up: int | None = None
        self.deadline = np.inf
        self.released: asyncio.Queue[Released | None] = asyncio.Queue()
        """None: asking has ended."""

    def newcomers(self, directory: Mapping[str, str]) -> list[AccountKey]:
        """Accounts of the federation that are in no table; `directory`: what rows call a bank."""
        keys = self._judged.payments.keys
        unknown = [keys[one] for one in np.flatnonzero(self._numbers < 0).tolist()]
        return [key for key in unknown if key[0] in directory]

    def _known(self) -> NDArray[np.int8]:
        return self._knowledge.bits[self._numbers]

    def open(self) -> Mask:
        """Of the questions: those of undecided payments that have no answer."""
        unknown = self._knowledge.bits[self.account, self.set] == UNKNOWN
        return np.asarray(unknown & self.left[self.row])

    def waiting(self) -> Mask:
        """Of the payments: those that miss an answer."""
        return self._with(self.open())

    def missing(self, answering: Mask) -> Mask:
        """Of the payments: those that miss an answer, all of it of banks that do not answer.

        `answering`: of each question, whether its bank does.
        """
        hopeful = self._with(self.open() & answering)
        return np.asarray(self.waiting() & ~hopeful)

    def _with(self, questions: Mask) -> Mask:
        found = np.zeros(len(self.left), np.bool_)
        found[self.row[questions]] = True
        return found

    def release(self, rows: Mask) -> None:
        """Decide these payments with what is known."""
        some = np.flatnonzero(rows & self.left)
        if len(some):
            missing = self.waiting()[some]
            self.left[some] = False
            self.released.put_nowait(Released(some, missing, self._known()))

    def decided(self, released: Released) -> Decided:
        """Their decisions; in any thread."""
        found = self._judged.judgement.decisions(released.known)
        rows = released.rows
        how = [self._how(*one) for one in zip(rows.tolist(), released.missing, strict=True)]
        return Decided(rows, self._judged.table(found, rows), tuple(how))

    def _how(self, row: int, missing: np.bool_) -> How:
        if missing:
            return "bank not answering"
        if self._unmatched[row]:
            return "account not yet matched"
        if self._no_bank[row]:
            return "bank not known"
        return "banks asked" if self._asks[row] else "local only"
