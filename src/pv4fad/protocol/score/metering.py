"""Metered questions (protocol.md §6.8): the aggregator opens answers, and counts the positive ones.

    PaymentNetwork → Bank         Z of every slot as ever, and a seed π that the aggregator
                                  does not get
    PaymentNetwork → Aggregator   its own part of every slot, permuted by π
    Bank           → Aggregator   R of every slot, permuted by π; its budget of positive answers
    Aggregator     → PaymentNetwork   their sum, permuted: the bits

The aggregator passes on a sum only if every slot of it is 0 or 1 and the ones fit into what is left
of the bank's budget for the day.  So the payment network learns at most a bit per slot, and no more
positive ones than the bank allows, whatever it sends: to pass, it must know what the bank opens up
to one bit.  Otherwise the aggregator passes on nothing and stops: this bank's answers wait until a
person at the bank has acted.  The aggregator learns how many bits are 1, not whose they are; with
the bank's seed it would see that, too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.privacy.days import counted_day, why_ahead
from pv4fad.store.records import Record

SEED_BYTES = 32


def permutation(seed: bytes, n: int) -> NDArray[np.int64]:
    """Where the slots go; pseudorandom for whoever lacks the seed."""
    words = hashlib.shake_256(b"pv4fad metered slots" + seed).digest(8 * n)
    return np.argsort(np.frombuffer(words, "<u8"), kind="stable")


def put_back(seed: bytes, permuted: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The slots in their own order."""
    found = np.empty_like(permuted)
    found[permutation(seed, len(permuted))] = permuted
    return found


@dataclass(frozen=True)
class Budget:
    """What a bank allows, as it says with every answer."""

    positives_per_day: int
    release: int
    """A higher number than at the last stop says that a person has acted."""


STOPPED_NEXT = -2
"""The number of the last stop is lost: whatever number comes next is the one."""
DEFAULT_BUDGET = Budget(positives_per_day=1_000, release=0)


@dataclass(frozen=True)
class Metered(Record):
    """What the aggregator has passed on of a bank's answers; one for each bank."""

    of_all_runs: ClassVar[bool] = True

    day: str = ""
    positives: int = 0
    stopped_at: int = -1
    """The release number at which the bank's answers were stopped last; -1: never."""

    def after(self, slots: NDArray[np.uint32], budget: Budget, today: str) -> Metered | str:
        """With these slots passed on, or why they must not be."""
        stopped_at = budget.release if self.stopped_at == STOPPED_NEXT else self.stopped_at
        if budget.release <= stopped_at:
            return (
                "its answers are stopped until a person there acts (metered-release ="
                f" {stopped_at + 1} in its party.toml)"
            )
        if slots.max(initial=0) > 1:
            return "an answer is neither 0 nor 1: it or the payment network has deviated"
        day = counted_day(today, self.day)
        positives = int(slots.sum()) + (self.positives if day == self.day else 0)
        if positives > budget.positives_per_day:
            return (
                f"its budget of {budget.positives_per_day} positive answers a day is used up"
                f"{why_ahead(today, self.day)}"
            )
        return replace(self, day=day, positives=positives)

    def stopped(self, budget: Budget) -> Metered:
        """Until the bank sends a higher release number."""
        return replace(self, stopped_at=max(self.stopped_at, budget.release))
