"""The statistical anomaly kinds: one thing about a payment is made unusual.

Each function changes the chosen payments in place and nothing else about them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pv4fad.payments.generate.accounts import AccountPool
from pv4fad.payments.generate.calibration import (
    MAJOR_CURRENCIES,
    MINOR_CURRENCIES,
    N_OUTSIDERS,
    AnomalyKind,
    Overlap,
)
from pv4fad.payments.generate.institutions import Institutions, Integers, draw_allowed
from pv4fad.payments.generate.payments import MINUTES_PER_DAY, Edit, Payments

_UPWARD_SHARE = 0.8  # of unusual amounts
_FORWARD_SHARE = 0.75  # of far settlement dates; the others lie before the message
_BACKWARD_MEAN_DAYS = 3.0


@dataclass(frozen=True)
class Surroundings:
    """What is usual, and how far from it the unusual is."""

    institutions: Institutions
    pool: AccountPool
    overlap: Overlap
    rng: np.random.Generator


def perturb(
    kind: AnomalyKind,
    payments: Payments,
    chosen: Integers,
    around: Surroundings,
    *,
    is_look_alike: bool,
) -> None:
    """Make the chosen payments unusual in the way of a statistical kind."""
    match kind:
        case AnomalyKind.AMOUNT:
            _amount(payments, chosen, around)
        case AnomalyKind.CURRENCY:
            minor_allowed = around.overlap.look_alikes_use_minor_currencies or not is_look_alike
            _currency(payments, chosen, around, minor_allowed=minor_allowed)
        case AnomalyKind.CORRIDOR:
            _corridor(payments, chosen, around)
        case AnomalyKind.HOUR:
            _hour(payments, chosen, around)
        case AnomalyKind.SETTLEMENT_DATE:
            _settlement_date(payments, chosen, around)
        case AnomalyKind.UNSEEN_INSTITUTION:
            first_outsider = around.institutions.n_banks
            outsider = around.rng.integers(0, N_OUTSIDERS, len(chosen))
            payments.way[chosen, 1] = first_outsider + outsider
        case AnomalyKind.IDENTITY:
            _identity(payments, chosen, around)
        case _:
            raise ValueError(f"{kind} is not a statistical kind")


def _amount(payments: Payments, chosen: Integers, around: Surroundings) -> None:
    sender, currency = payments.way[chosen, 0], payments.currency[chosen]
    excess = around.rng.exponential(around.overlap.amount_mean_excess_z, len(chosen))
    z = around.overlap.amount_least_z + excess
    z *= np.where(around.rng.random(len(chosen)) < _UPWARD_SHARE, 1.0, -1.0)
    deviation = around.institutions.log_deviation[sender, currency]
    payments.log_amount[chosen] = around.institutions.log_mean[sender, currency] + z * deviation


def _currency(
    payments: Payments, chosen: Integers, around: Surroundings, *, minor_allowed: bool
) -> None:
    rng, n_major = around.rng, len(MAJOR_CURRENCIES)
    step = rng.integers(1, n_major, len(chosen))
    other_major = (payments.currency[chosen] + step) % n_major
    minor = n_major + rng.integers(0, len(MINOR_CURRENCIES), len(chosen))
    is_minor = rng.random(len(chosen)) < around.overlap.minor_currency_share
    payments.settled_currency[chosen] = np.where(is_minor & minor_allowed, minor, other_major)


def _corridor(payments: Payments, chosen: Integers, around: Surroundings) -> None:
    """The last leg goes where its sender hardly ever sends, to some account there."""
    institutions = around.institutions
    usual = institutions.corridor > around.overlap.corridor_share_below
    np.fill_diagonal(usual, val=True)
    sender = payments.last_sender()[chosen]
    receiver = draw_allowed(~usual[sender], around.rng)
    beneficiary = around.pool.ordinary_beneficiary_at(receiver, around.rng)
    payments.way[chosen, payments.legs[chosen]] = receiver
    payments.beneficiary[chosen] = payments.beneficiary_holder[chosen] = beneficiary


def _hour(payments: Payments, chosen: Integers, around: Surroundings) -> None:
    """The payment begins at an hour at which its sender hardly ever does."""
    unusual = around.institutions.hour < around.overlap.hour_share_below
    hour = draw_allowed(unusual[payments.way[chosen, 0]], around.rng)
    day = payments.start[chosen] // MINUTES_PER_DAY
    minute = around.rng.integers(0, 60, len(chosen))
    payments.start[chosen] = day * MINUTES_PER_DAY + hour * 60 + minute


def _settlement_date(payments: Payments, chosen: Integers, around: Surroundings) -> None:
    rng, overlap = around.rng, around.overlap
    further = rng.geometric(1.0 / (1.0 + overlap.delay_mean_excess_days), len(chosen)) - 1
    backward = -rng.geometric(1.0 / _BACKWARD_MEAN_DAYS, len(chosen))
    is_forward = rng.random(len(chosen)) < _FORWARD_SHARE
    payments.delay[chosen] = np.where(is_forward, overlap.delay_least_days + further, backward)


def _identity(payments: Payments, chosen: Integers, around: Surroundings) -> None:
    """A name is blank or misspelt or a street is wrong, on one of the two sides."""
    edits = (Edit.NAME_BLANK, Edit.NAME_EDITED, Edit.STREET_EDITED)
    edit = around.rng.choice(edits, len(chosen))
    on_ordering_side = around.rng.random(len(chosen)) < 0.5
    payments.ordering_edit[chosen] = np.where(on_ordering_side, edit, Edit.NONE)
    payments.beneficiary_edit[chosen] = np.where(on_ordering_side, Edit.NONE, edit)
