"""What the kinds of accounts would mean for payments: which to ask about, and what follows.

A payment alerts if its hazard reaches the threshold τ; by its score the alert has a level 1, 2 or 3
(`decisions.LEVELS`).  The payment network knows the own hazard h0.  On each side, with the others
taken as ordinary, it works out which kinds of account would raise the level: A.  If A is empty, as
it is for most payments and for alerts of level 3, no bank can change anything: nothing is asked.

    hazard = h0 + what the kinds in A add, on each side where the account is known to be of one

Whatever is not known counts as ordinary.  `questions` asks about a batch in rounds; live, all that
is `wanted` is asked at once, and the decision is a function of the payment and of these bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.evidence.decisions import LEVELS, Decisions
from pv4fad.evidence.knowledge import own_hazard
from pv4fad.evidence.model import EvidenceModel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Known = NDArray[np.int8]
"""(accounts, kinds): -1 unknown, 0 or 1."""

UNKNOWN = -1


@dataclass(frozen=True)
class EvidenceRows:
    """Payments to score, as the payment network sees them.  Columns of (n, sides) are sides."""

    local_scores: NDArray[np.floating] = field(repr=False)  # (n,)
    is_first: NDArray[np.bool_] = field(repr=False)  # (n,)
    stratum: Integers = field(repr=False)  # (n, sides)
    hit: NDArray[np.bool_] = field(repr=False)  # (n, sides)
    account: Integers = field(repr=False)
    """(n, sides): numbers of accounts, those of `Known`."""
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
    """What is known when an epoch begins."""
    return np.full((n_accounts, len(model.kinds)), UNKNOWN, np.int8)


def complete(known: Known) -> Known:
    """With all that follows because an account has one kind: one that is of some kind is of no
    other."""
    found = (known == 1).any(axis=1, keepdims=True) & (known != 1)
    return np.where(found, 0, known).astype(np.int8)


class Judgement:
    """Of some payments."""

    def __init__(self, model: EvidenceModel, rows: EvidenceRows, alert_share: float) -> None:
        self.alert_share = alert_share
        own = model.knowledge
        local = own.scale.log_odds(rows.local_scores)
        self.account = rows.account
        self._own = own_hazard(local, own.history, rows.is_first, rows.stratum, rows.hit)
        threshold = model.threshold(alert_share)
        self.local_alert = np.asarray(self._own >= threshold)
        self._adds = _by_row(model.hazard, rows)  # (n, sides, kinds)
        with_kind = self._own[:, np.newaxis, np.newaxis] + self._adds
        raised = _level(with_kind, threshold) > _level(self._own, threshold)[:, None, None]
        self.raising: NDArray[np.bool_] = raised & rows.askable[:, :, np.newaxis]
        """(n, sides, kinds): the set A of each side."""

    def __len__(self) -> int:
        return len(self.account)

    @property
    def n_kinds(self) -> int:
        return int(self.raising.shape[2])

    def wanted(self, known: Known) -> NDArray[np.bool_]:
        """(n, sides, kinds): what could raise the level and is not known."""
        return np.asarray(self.raising & (known[self.account] == UNKNOWN))

    def found(self, known: Known) -> NDArray[np.bool_]:
        """(n, sides, kinds): sides that raise the level, and because of which kind."""
        return np.asarray(self.raising & (known[self.account] == 1))

    def decisions(self, known: Known) -> Decisions:
        """With what is known."""
        found = self.found(known)
        hazard = self._own + np.where(found, self._adds, 0.0).sum(axis=(1, 2))
        return Decisions(
            -np.expm1(-hazard),
            -np.expm1(-self._own),
            self.local_alert,
            np.asarray(found.any(axis=(1, 2))),
        )


def _by_row(table: Floats, rows: EvidenceRows) -> Floats:
    """(n, sides, kinds), from (side, first, stratum, kind)."""
    first = rows.is_first.astype(np.int64)
    sides = range(rows.stratum.shape[1])
    return np.stack([table[one, first, rows.stratum[:, one]] for one in sides], axis=1)


def _level(hazard: Floats, threshold: float) -> Integers:
    """0 below the threshold, and then 1, 2, 3 by score."""
    level = 1 + np.searchsorted(-np.log1p(-np.array(LEVELS)), hazard, side="right")
    return np.where(hazard >= threshold, level, 0)
