"""Batches of payments to score, each with what a trusted third party makes of it.

decisions   one bit about an account where it decides about a payment, in rounds of one layer
votes       a vote total per payment, one layer for each payment that an account has at most

The number of rounds does not depend on the number of payments, and a round costs the same however
many accounts it asks about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.trusted import trusted_bits
from pv4fad.federation import Federation
from pv4fad.parties.scoring_tables import AskedSet, Round, ScoringInput
from pv4fad.protocol.tables import AccountKey
from pv4fad.transport.in_process import Observer

NOTHING = -1  # to ask


class Batch(ABC):
    """Payments, and after `score` what was found out about them."""

    @abstractmethod
    def score(self, federation: Federation, run_id: str, observer: Observer | None = None) -> None:
        """As the federation does it."""

    @abstractmethod
    def checks(self) -> dict[str, bool]:
        """What was found out, compared with a trusted third party."""


@dataclass
class DecisionBatch(Batch):
    """Payments that alert if the record of their account is in a set, the sets being nested."""

    keys: Sequence[AccountKey] = field(repr=False)
    account: NDArray[np.int64] = field(repr=False)  # (payments,): numbers into `keys`
    sets: tuple[AskedSet, ...]
    set_of: NDArray[np.int64] = field(repr=False)  # (payments,): numbers into `sets`, or NOTHING
    atom_of: NDArray[np.int64] = field(repr=False)  # (keys,): the truth, −1 for no record
    truth: NDArray[np.bool_] = field(repr=False)  # (payments,): whether the bank's record alerts

    def score(self, federation: Federation, run_id: str, observer: Observer | None = None) -> None:
        """Smallest set first; who is known to be in a set is not asked about again."""
        largest = np.full(len(self.keys), NOTHING)
        np.maximum.at(largest, self.account, self.set_of)
        inside = np.zeros((len(self.keys), len(self.sets)), np.bool_)
        self._answers = []
        for number, one in enumerate(self.sets):
            asked = np.flatnonzero((largest >= number) & ~inside[:, number])
            questions = Round(
                [self.keys[key] for key in asked.tolist()], (one,), np.zeros_like(asked)
            )
            bits = federation.ask(run_id, questions, observer)
            inside[asked[bits == 1], number:] = True
            self._answers.append((asked, bits))
        self._alerts = inside[self.account, self.set_of] & (self.set_of != NOTHING)

    def checks(self) -> dict[str, bool]:
        """Every bit, and every decision that follows."""
        right = [
            np.array_equal(bits, trusted_bits(self.atom_of[asked], one.atoms, absent=one.absent))
            for one, (asked, bits) in zip(self.sets, self._answers, strict=True)
        ]
        n_bits = sum(len(bits) for _, bits in self._answers)
        return {
            f"all {n_bits:,} bits equal those of a trusted third party": all(right),
            f"all {len(self._alerts):,} decisions equal those of a trusted third party": bool(
                np.array_equal(self._alerts, self.truth)
            ),
        }


@dataclass
class VoteBatch(Batch):
    """Payments that get vote totals."""

    data: ScoringInput = field(repr=False)
    truth: NDArray[np.int64] = field(repr=False)  # (payments, 2)

    def score(self, federation: Federation, run_id: str, observer: Observer | None = None) -> None:
        self._votes = federation.score(run_id, self.data, observer)

    def checks(self) -> dict[str, bool]:
        equal = bool(np.array_equal(self._votes, self.truth))
        return {f"all {len(self.truth):,} vote totals equal those of a trusted third party": equal}
