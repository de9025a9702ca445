"""Anomalies: payments with one thing wrong, and normal payments that look as if.

Each kind changes one thing about a payment.  The messages that show the change are labelled 1: all
legs of the payment, or the legs at the changed institution.  *Look-alikes* are changed in the same
way and stay labelled 0; without them every oddity would be an anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.generate.calibration import (
    BANK_KINDS,
    KIND_SHARES,
    MILD_FLAGS,
    SEVERE_FLAGS,
    WARNING_FLAGS,
    AnomalyKind,
)
from pv4fad.payments.generate.institutions import Integers
from pv4fad.payments.generate.payments import MAX_LEGS, Payments
from pv4fad.payments.generate.perturbations import Surroundings, perturb

Booleans = NDArray[np.bool_]

KINDS = tuple(AnomalyKind)

# The amounts of normal payments have tails, flagged accounts have a rule of their own.
_WITHOUT_LOOK_ALIKES = (*BANK_KINDS, AnomalyKind.AMOUNT)
_BENEFICIARY_SHARE = 0.75  # of normal traffic with a flagged account: flag on the receiving side


@dataclass(frozen=True)
class Marks:
    """The truth about payments that does not stand in them."""

    label: Booleans  # (payments, legs)
    kind: Integers  # by payment: number in KINDS, -1 for none
    bank_sees_it: Booleans  # by payment: anomalous, and a bank's records show it
    absent_bank: Integers  # by absent account, numbered after those of the pool: its bank


def inject(payments: Payments, around: Surroundings, anomaly_rate: float) -> Marks:
    """Change some payments in place; says which and how."""
    injection = _Injection(payments, around)
    n_messages = int(payments.legs.sum())
    injection.flag_normal_traffic(around.overlap.flagged_normal_share * n_messages)
    for kind, share in KIND_SHARES.items():
        wanted = anomaly_rate * n_messages * share
        injection.make_anomalies(kind, wanted)
        if kind not in _WITHOUT_LOOK_ALIKES:
            injection.make_look_alikes(kind, around.overlap.look_alikes * wanted)
    return Marks(
        injection.label,
        injection.kind,
        injection.bank_sees_it,
        np.concatenate([np.empty(0, np.int64), *injection.absent_banks]),
    )


class _Injection:
    """Payments under change: which are still untouched, and what was done to the others."""

    def __init__(self, payments: Payments, around: Surroundings) -> None:
        self.payments, self.around, self.rng = payments, around, around.rng
        self.untouched = np.ones(len(payments), bool)
        self.label = np.zeros((len(payments), MAX_LEGS), bool)
        self.kind = np.full(len(payments), -1)
        self.bank_sees_it = np.zeros(len(payments), bool)
        self.absent_banks: list[Integers] = []

    def flag_normal_traffic(self, wanted: float) -> None:
        """Let relations with `wanted` messages use flagged accounts, on either side."""
        payments, pool = self.payments, self.around.pool
        n_relations = int(payments.relation.max()) + 1
        any_payment = np.zeros(n_relations, np.int64)
        any_payment[payments.relation] = np.arange(len(payments))
        messages = np.bincount(payments.relation, payments.legs, n_relations)
        bank_of = {
            "ordering": payments.way[any_payment, 0],
            "beneficiary": payments.last_receiver()[any_payment],
        }
        free = messages > 0
        for side, codes, part in self._normal_flags():
            bank = bank_of[side]
            has_flags = pool.banks_with(codes, self.around.institutions.n_banks)
            chosen = self._draw(free & has_flags[bank], messages, part * wanted)
            free[chosen] = False
            account = np.full(n_relations, -1)
            account[chosen] = pool.flagged_at(bank[chosen], codes, self.rng)
            touched = np.flatnonzero(account[payments.relation] >= 0)
            self._redirect(side, touched, account[payments.relation[touched]])
            self.untouched[touched] = False

    def _normal_flags(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Side, flags and share of normal traffic that touches flagged accounts."""
        mild = self.around.overlap.flagged_normal_mild
        sides = (("ordering", 1.0 - _BENEFICIARY_SHARE), ("beneficiary", _BENEFICIARY_SHARE))
        for side, share in sides:
            yield side, MILD_FLAGS, share * mild
            yield side, SEVERE_FLAGS, share * (1.0 - mild)

    def make_anomalies(self, kind: AnomalyKind, wanted: float) -> None:
        """Make `wanted` messages anomalous in the way of `kind`."""
        chosen = self._choose(kind, wanted)
        self.label[chosen] = self._shown_by(kind)[chosen]
        self.kind[chosen] = KINDS.index(kind)
        if kind not in BANK_KINDS:
            perturb(kind, self.payments, chosen, self.around, is_look_alike=False)
            return
        # The first few keep their ordinary accounts: anomalous, and no record says so.
        messages = np.cumsum(self.payments.legs[chosen])
        unflagged = self.around.overlap.unflagged_anomalies * messages.max(initial=0)
        seen = chosen[messages > unflagged]
        self.bank_sees_it[seen] = True
        bank, pool = self.payments.last_receiver(), self.around.pool
        if kind is AnomalyKind.FLAGGED_BENEFICIARY:
            account = pool.flagged_at(bank[seen], WARNING_FLAGS, self.rng)
            self._redirect("beneficiary", seen, account)
        elif kind is AnomalyKind.ABSENT_BENEFICIARY:
            self.payments.beneficiary[seen] = self._absent_accounts(bank[seen])
        else:
            self.payments.ordering[seen] = self._absent_accounts(self.payments.way[seen, 0])

    def make_look_alikes(self, kind: AnomalyKind, wanted: float) -> None:
        """Make `wanted` normal messages look like anomalies of `kind`."""
        chosen = self._choose(kind, wanted)
        perturb(kind, self.payments, chosen, self.around, is_look_alike=True)

    def _choose(self, kind: AnomalyKind, wanted: float) -> Integers:
        """Untouched payments in which `wanted` messages can show an anomaly of `kind`."""
        shown_by = self._shown_by(kind).sum(axis=1)
        chosen = self._draw(self.untouched & self._eligible(kind), shown_by, wanted)
        self.untouched[chosen] = False
        return chosen

    def _draw(self, eligible: Booleans, messages: NDArray[np.generic], wanted: float) -> Integers:
        """Random eligible entries whose messages add up to `wanted`, as nearly as possible."""
        candidates = self.rng.permutation(np.flatnonzero(eligible))[: int(wanted) + 1]
        reached = np.concatenate([[0], np.cumsum(messages[candidates])])
        return candidates[: int(np.argmin(np.abs(reached - wanted)))]

    def _eligible(self, kind: AnomalyKind) -> Booleans:
        payments, pool = self.payments, self.around.pool
        if kind is AnomalyKind.FLAGGED_BENEFICIARY:
            has_flags = pool.banks_with(WARNING_FLAGS, self.around.institutions.n_banks)
            return has_flags[payments.last_receiver()]
        if kind is AnomalyKind.UNSEEN_INSTITUTION:
            return payments.legs > 1
        if kind is AnomalyKind.IDENTITY:
            # What has no name cannot lose it.
            return ~(
                pool.nameless[payments.ordering_holder] | pool.nameless[payments.beneficiary_holder]
            )
        return np.ones(len(payments), bool)

    def _shown_by(self, kind: AnomalyKind) -> Booleans:
        """(payments, legs): the legs in which an anomaly of `kind` shows."""
        leg, legs = np.arange(MAX_LEGS), self.payments.legs[:, None]
        shown: Booleans = leg < legs
        if kind is AnomalyKind.CORRIDOR:
            shown = leg == legs - 1
        elif kind is AnomalyKind.UNSEEN_INSTITUTION:
            shown &= leg < 2
        return shown

    def _redirect(self, side: str, chosen: Integers, account: Integers) -> None:
        """Another account on one side, with its own holder."""
        if side == "ordering":
            self.payments.ordering[chosen] = self.payments.ordering_holder[chosen] = account
        else:
            self.payments.beneficiary[chosen] = self.payments.beneficiary_holder[chosen] = account

    def _absent_accounts(self, bank: Integers) -> Integers:
        """New accounts that none of the banks knows; the holder shown stays who it was."""
        first = len(self.around.pool.bank) + sum(len(banks) for banks in self.absent_banks)
        self.absent_banks.append(bank)
        return first + np.arange(len(bank))
