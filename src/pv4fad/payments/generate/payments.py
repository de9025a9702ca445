"""Ordinary payments: relations between accounts, and the payments they lead to.

A relation is an ordering and a beneficiary account, the way between their banks, and a currency.
Its payments differ in time and amount.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.generate.accounts import AccountPool, assign_accounts, draw_pool
from pv4fad.payments.generate.calibration import (
    CURRENCY_SHARES,
    LEG_SHARES,
    MINUTES_BETWEEN_LEGS,
    PAYMENTS_PER_RELATION,
    PERIOD_DAYS,
)
from pv4fad.payments.generate.institutions import Institutions, Integers, draw_by_row

Booleans = NDArray[np.bool_]

MAX_LEGS = 3
MINUTES_PER_DAY = 1440

_MEAN_LEGS = sum(legs * share for legs, share in enumerate(LEG_SHARES, start=1))
_RELATION_SPREAD = 1.0  # of the logarithm of how often a relation pays
_WAY_ATTEMPTS = 30


class Edit(IntEnum):
    """What a message does to the name and address of an account's holder."""

    NONE = 0
    NAME_BLANK = 1
    NAME_EDITED = 2
    STREET_EDITED = 3


@dataclass(frozen=True)
class Relations:
    """One entry per relation."""

    way: Integers  # (relations, 4): institutions, from ordering to beneficiary bank; -1 unused
    legs: Integers  # 1..3
    ordering: Integers
    beneficiary: Integers
    currency: Integers  # number of a major currency
    settled_currency: Integers


@dataclass(frozen=True)
class Payments:
    """One entry per payment; anomalies are written into these arrays."""

    relation: Integers
    way: Integers
    legs: Integers
    ordering: Integers
    beneficiary: Integers
    currency: Integers
    settled_currency: Integers
    start: Integers  # minutes since the beginning of the period
    gap: Integers  # (payments, 2): minutes between legs
    log_amount: NDArray[np.float64]
    delay: Integers  # days until settlement
    ordering_holder: Integers  # the account whose name and address the message shows
    beneficiary_holder: Integers
    ordering_edit: Integers  # what is wrong with them: an `Edit`
    beneficiary_edit: Integers

    def __len__(self) -> int:
        return len(self.relation)

    def last_sender(self) -> Integers:
        return self.way[np.arange(len(self)), self.legs - 1]

    def last_receiver(self) -> Integers:
        return self.way[np.arange(len(self)), self.legs]

    def leg_starts(self) -> Integers:
        """(payments, 3): when each leg is sent, whether or not the payment has that leg."""
        first = np.zeros((len(self), 1), np.int64)
        result: Integers = self.start[:, None] + np.hstack([first, np.cumsum(self.gap, axis=1)])
        return result


def draw_relations(
    n_messages: int,
    n_accounts: int,
    exchanged_share: float,
    institutions: Institutions,
    rng: np.random.Generator,
) -> tuple[Relations, AccountPool]:
    """Relations, and the accounts that take part in them."""
    n = max(10, round(n_messages / _MEAN_LEGS / PAYMENTS_PER_RELATION))
    way, legs = _draw_ways(n, institutions, rng)
    ordering_bank, beneficiary_bank = way[:, 0], way[np.arange(n), legs]
    pool = draw_pool(
        n_accounts,
        np.bincount(ordering_bank, minlength=institutions.n_banks),
        np.bincount(beneficiary_bank, minlength=institutions.n_banks),
        rng,
    )
    currency = draw_by_row(institutions.currency, ordering_bank, rng)
    settled = currency.copy()
    exchanged = np.flatnonzero(rng.random(n) < exchanged_share)
    shares = np.asarray(CURRENCY_SHARES) / sum(CURRENCY_SHARES)
    settled[exchanged] = rng.choice(len(shares), len(exchanged), p=shares)
    relations = Relations(
        way=way,
        legs=legs,
        ordering=assign_accounts(ordering_bank, pool.ordering_start, pool.ordering_size, rng),
        beneficiary=assign_accounts(
            beneficiary_bank, pool.beneficiary_start, pool.beneficiary_size, rng
        ),
        currency=currency,
        settled_currency=settled,
    )
    return relations, pool


def draw_payments(
    n_messages: int, relations: Relations, institutions: Institutions, rng: np.random.Generator
) -> Payments:
    """Payments with exactly `n_messages` legs in all."""
    relation = _draw_payment_relations(n_messages, relations.legs, rng)
    n = len(relation)
    way = relations.way[relation]
    sender, currency = way[:, 0], relations.currency[relation]
    hour = draw_by_row(institutions.hour, sender, rng)
    day = rng.integers(0, PERIOD_DAYS, n)
    spread = institutions.log_deviation[sender, currency] * rng.standard_normal(n)
    gap = rng.gamma(9.0, MINUTES_BETWEEN_LEGS / 9.0, (n, MAX_LEGS - 1))
    return Payments(
        relation=relation,
        way=way,
        legs=relations.legs[relation],
        ordering=relations.ordering[relation],
        beneficiary=relations.beneficiary[relation],
        currency=currency,
        settled_currency=relations.settled_currency[relation],
        start=day * MINUTES_PER_DAY + hour * 60 + rng.integers(0, 60, n),
        gap=1 + gap.astype(np.int64),
        log_amount=institutions.log_mean[sender, currency] + spread,
        delay=draw_by_row(institutions.delay, sender, rng),
        ordering_holder=relations.ordering[relation],
        beneficiary_holder=relations.beneficiary[relation],
        ordering_edit=np.full(n, Edit.NONE),
        beneficiary_edit=np.full(n, Edit.NONE),
    )


def _draw_ways(
    n: int, institutions: Institutions, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    way = np.full((n, MAX_LEGS + 1), -1)
    way[:, 0] = rng.choice(institutions.n_senders, n, p=institutions.first_sender)
    legs = 1 + rng.choice(MAX_LEGS, n, p=LEG_SHARES)
    to_do = np.arange(n)
    for attempt in range(_WAY_ATTEMPTS):
        if attempt == _WAY_ATTEMPTS - 1:
            legs[to_do] = 1  # with few banks some longer ways do not exist
        way[to_do] = _attempt_ways(way[to_do, 0], legs[to_do], institutions, rng)
        to_do = to_do[_visits_twice(way[to_do])]
    return way, legs


def _attempt_ways(
    first: Integers, legs: Integers, institutions: Institutions, rng: np.random.Generator
) -> Integers:
    way = np.full((len(first), MAX_LEGS + 1), -1)
    way[:, 0] = first
    for step in range(MAX_LEGS):
        going_on, ending = np.flatnonzero(legs > step + 1), np.flatnonzero(legs == step + 1)
        way[going_on, step + 1] = draw_by_row(institutions.via, way[going_on, step], rng)
        way[ending, step + 1] = draw_by_row(institutions.final, way[ending, step], rng)
    return way


def _visits_twice(way: Integers) -> Booleans:
    ordered = np.sort(way, axis=1)
    result: Booleans = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    return result


def _draw_payment_relations(n_messages: int, legs: Integers, rng: np.random.Generator) -> Integers:
    """The relation of each payment: each relation once, then the busy ones again and again."""
    weights = rng.lognormal(0.0, _RELATION_SPREAD, len(legs))
    n_further = round(n_messages / legs.mean()) - len(legs)
    further = rng.multinomial(max(0, n_further), weights / weights.sum())
    relation = rng.permutation(np.repeat(np.arange(len(legs)), 1 + further))
    kept = relation[np.cumsum(legs[relation]) <= n_messages]
    missing = n_messages - int(legs[kept].sum())
    # Whatever is short of the wanted number of messages is filled with payments of one leg.
    return np.concatenate([kept, rng.choice(np.flatnonzero(legs == 1), missing)])
