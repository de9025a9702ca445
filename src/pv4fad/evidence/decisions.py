"""What a scoring comes to: alerts, scores, and in numbers what the payment network has learnt."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LEVELS = (0.5, 0.9)
"""Scores from which an alert is of level 2, of level 3."""


@dataclass(frozen=True)
class Decisions:
    """Of some payments.  Only `bank_alert`, and the score of such payments, depend on a bank."""

    score: NDArray[np.float64] = field(repr=False)
    """Alerts are above all others."""
    own_score: NDArray[np.float64] = field(repr=False)
    """From own evidence alone: the same, but for alerts through a bank."""
    local_alert: NDArray[np.bool_] = field(repr=False)
    """By own evidence."""
    bank_alert: NDArray[np.bool_] = field(repr=False)
    """With the answer of a bank: no alert, or one of a lower level, without it."""

    @property
    def alert(self) -> NDArray[np.bool_]:
        return self.local_alert | self.bank_alert

    @property
    def level(self) -> NDArray[np.int8]:
        """0 without alert; 1, 2, 3 by score."""
        return np.where(self.alert, 1 + np.searchsorted(LEVELS, self.score, "right"), 0).astype(
            np.int8
        )

    @property
    def n_alerts(self) -> int:
        return int(self.alert.sum())

    @property
    def n_bank_alerts(self) -> int:
        return int(self.bank_alert.sum())


@dataclass(frozen=True)
class BatchDecisions(Decisions):
    """Of a batch, with what it asked."""

    asked: NDArray[np.bool_] = field(repr=False)
    """Payments for whose sake something was asked."""
    n_accounts_asked: int
    known: NDArray[np.int8] = field(repr=False)
    """(accounts, kinds): -1 unknown, 0 or 1; to be kept until the epoch ends."""

    @property
    def n_payments_asked(self) -> int:
        return int(self.asked.sum())

    @property
    def n_accounts_known(self) -> int:
        """About which there is a bit, of this batch or an earlier one of the epoch."""
        return int((self.known != -1).any(axis=1).sum())

    @property
    def n_accounts_positive(self) -> int:
        """Of these, of some kind: not ordinary."""
        return int((self.known == 1).any(axis=1).sum())
