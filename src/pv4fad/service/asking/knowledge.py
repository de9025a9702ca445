"""What is known about accounts in this epoch, what has been asked, and what is being asked.

On disk are, in the journal, the questions before they are sent and the answers when they are known.
From there they are taken over into the store whenever a model is loaded (`known_now`), so that
batch scorings know them.  A question whose answer was lost, because the service was killed before
it was noted, may be asked again: it tells the same bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ProtocolError
from pv4fad.evidence.judgement import UNKNOWN, complete
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.service.asking.model import LiveModel
from pv4fad.store.store import Store

Integers = NDArray[np.int64]


class Knowledge:
    """Arrays over numbers of accounts and sets; the last row is that of accounts without number."""

    def __init__(self, model: LiveModel) -> None:
        self._tables, n_sets = model.tables, len(model.tables.sets)
        n_placed = len(self._tables.slot)
        # Accounts that can only be asked about in a batch.
        others = [account for account in model.known if account not in self._tables.number]
        self._others = {account: n_placed + i for i, account in enumerate(others)}
        self._ids = [b""] * n_placed
        for account, number in self._tables.number.items():
            self._ids[number] = account
        bits = np.full((n_placed + len(self._others) + 1, n_sets), UNKNOWN, np.int8)
        for account, row in model.known.items():
            bits[self._number(account)] = row
        self.bits = complete(bits)
        self.in_flight = np.zeros(bits.shape, np.bool_)
        self.n_placed = n_placed

    def numbers(self, hashed: Sequence[bytes]) -> Integers:
        """-1 for accounts about which nothing is known and nothing can be asked."""
        return np.array([self._number(one) for one in hashed], np.int64)

    def _number(self, account: bytes) -> int:
        found = self._tables.number.get(account)
        return self._others.get(account, -1) if found is None else found

    def learn(self, account: Integers, of_set: Integers, bits: NDArray[np.int8]) -> None:
        """Answers; `ProtocolError` if an account would be of two kinds."""
        rows = np.unique(account)
        before = self.bits[rows].copy()
        self.bits[account, of_set] = bits
        if ((self.bits[rows] == 1).sum(axis=1) > 1).any():
            self.bits[rows] = before
            raise ProtocolError("a record that is of two kinds")
        self.bits[rows] = complete(self.bits[rows])

    def absorb(self, other: Knowledge) -> None:
        """What another one of the same epoch has learnt meanwhile."""
        if (other._tables.run_id, other._tables.epoch) != (self._tables.run_id, self._tables.epoch):
            return
        known = np.flatnonzero((other.bits[: other.n_placed] != UNKNOWN).any(axis=1))
        mine = self.numbers([other._ids[number] for number in known])
        known, mine = known[mine >= 0], mine[mine >= 0]
        told = other.bits[known]
        self.bits[mine] = np.where(told == UNKNOWN, self.bits[mine], told)

    # On disk.

    def note(
        self, account: Integers, of_set: Integers, bits: NDArray[np.int8] | None = None
    ) -> dict[str, Any]:
        """What the journal keeps of questions, or of answers."""
        return {
            "run": self._tables.run_id,
            "epoch": self._tables.epoch,
            "ids": [self._ids[number].decode() for number in account],
            "sets": of_set.tolist(),
            "bits": None if bits is None else bits.tolist(),
        }

    @property
    def n_known(self) -> int:
        """Accounts of which some bit is known."""
        return int((self.bits != UNKNOWN).any(axis=1).sum())

    @property
    def n_positive(self) -> int:
        """Of these, those that are of some kind."""
        return int((self.bits == 1).any(axis=1).sum())


@dataclass(frozen=True)
class KnownNow:
    """What is known in an epoch, from store and journal."""

    bits: Mapping[bytes, NDArray[np.int8]] = field(repr=False)
    """(sets,) of each account of which something is known, by what is hashed of it."""
    left: tuple[Mapping[str, Any], ...] | None = field(repr=False)
    """What the journal keeps of the notes; None: all of them."""


def known_now(
    store: Store, run_id: str, noted: Sequence[Mapping[str, Any]], n_sets: int
) -> KnownNow:
    """What is known in the present epoch.  `noted`: the questions of the journal.

    They are taken over into the store, unless a scoring is interrupted there, which has to go on
    with what it knew when it began.  Older epochs are forgotten.  Questions without an answer stay
    in the journal, so that all that was asked is on record.
    """
    notes = JobNotes(store, run_id)
    here = {"run": run_id, "epoch": notes.epoch}
    asked: set[tuple[str, int]] = set()
    told: dict[tuple[str, int], int] = {}
    for note in noted:
        if {"run": note["run"], "epoch": note["epoch"]} != here:
            continue
        pairs = list(zip(note["ids"], note["sets"], strict=True))
        if note["bits"] is None:
            asked.update(pairs)
        else:
            told.update(zip(pairs, note["bits"], strict=True))
    left: tuple[Mapping[str, Any], ...] | None = None
    if notes.read() is None:
        notes.learn([(name.encode(), one, bit) for (name, one), bit in told.items()], n_sets)
        open_ = sorted(asked - told.keys())
        names, sets = [name for name, _ in open_], [of_set for _, of_set in open_]
        left = (here | {"ids": names, "sets": sets, "bits": None},) if open_ else ()
    ids, bits = notes.all_known(n_sets)
    known = dict(zip(ids, bits.copy(), strict=True))
    for (name, of_set), bit in told.items():
        row = known.setdefault(name.encode(), np.full(n_sets, UNKNOWN, np.int8))
        row[of_set] = bit
    return KnownNow(known, left)
