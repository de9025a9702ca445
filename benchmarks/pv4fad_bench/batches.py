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
from pv4fad.lead.federation import Federation
from pv4fad.parties.in_process import Observer
from pv4fad.protocol.score.inputs import AskedSet, Round, ScoringInput
from pv4fad.protocol.tables import AccountKey


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
    """Payments that alert if the record of their account is of one of some kinds.

    A kind is a set of records; a record is of one kind at most.
    """

    keys: Sequence[AccountKey] = field(repr=False)
    account: NDArray[np.int64] = field(repr=False)  # (payments,): numbers into `keys`
    kinds: tuple[AskedSet, ...]
    alerts_if: NDArray[np.bool_] = field(repr=False)  # (payments, kinds)
    atom_of: NDArray[np.int64] = field(repr=False)  # (keys,): the truth, −1 for no record
    truth: NDArray[np.bool_] = field(repr=False)  # (payments,): whether the bank's record alerts

    def score(self, federation: Federation, run_id: str, observer: Observer | None = None) -> None:
        """A round for each kind; whose kind is known is not asked about again."""
        wanted = np.zeros((len(self.keys), len(self.kinds)), np.bool_)
        np.logical_or.at(wanted, self.account, self.alerts_if)
        found = np.zeros_like(wanted)
        self._answers = []
        for number, kind in enumerate(self.kinds):
            asked = np.flatnonzero(wanted[:, number] & ~found.any(axis=1))
            questions = Round(
                [self.keys[key] for key in asked.tolist()], (kind,), np.zeros_like(asked)
            )
            bits = federation.ask(run_id, questions, observer)
            found[asked, number] = bits == 1
            self._answers.append((asked, bits))
        self._alerts = (self.alerts_if & found[self.account]).any(axis=1)

    def checks(self) -> dict[str, bool]:
        """Every bit, and every decision that follows."""
        right = [
            np.array_equal(bits, trusted_bits(self.atom_of[asked], one.atoms, absent=one.absent))
            for one, (asked, bits) in zip(self.kinds, self._answers, strict=True)
        ]
        n_bits = sum(len(bits) for _, bits in self._answers)
        return {
            f"all {n_bits:,} bits equal those of a trusted third party": all(right),
            f"all {len(self.truth):,} decisions equal those of a trusted third party": bool(
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
