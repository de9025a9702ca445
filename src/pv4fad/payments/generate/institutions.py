"""The institutions and their habits: who pays whom, in which currency, when, and how much.

Institutions are numbered: banks 0..n_banks-1 (the first n_senders of them also send), then the
outsiders, which hold no accounts and are hardly ever seen.  Habits are arrays by sender.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.generate.calibration import (
    CURRENCY_SHARES,
    EXCHANGE_RATES,
    LEG_SHARES,
    MAJOR_CURRENCIES,
    N_OUTSIDERS,
    SENDER_SHARES,
    SENDERS_PER_BANK,
)
from pv4fad.payments.generate.text import bank_identifiers

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

# Share of the pairs of institutions that are in regular use: to receivers that never send, and
# among senders, where payments must find their way on.
_ACTIVE_CORRIDORS, _ACTIVE_AMONG_SENDERS = 0.55, 0.85
_FEWEST_SENDERS = 4  # with fewer, payments of three legs have no way


@dataclass(frozen=True)
class Institutions:
    """All institutions; rows of the matrices are senders and add up to 1."""

    n_banks: int
    bics: tuple[str, ...]
    countries: tuple[str, ...]
    first_sender: Floats  # share of payments that begin at each sender
    via: Floats  # next institution where the payment goes on
    final: Floats  # next institution where the payment ends (a bank)
    corridor: Floats  # next institution, over all messages of the sender
    currency: Floats  # by major currency
    hour: Floats  # by hour of the day
    delay: Floats  # by days until settlement, 0..2
    log_mean: Floats  # of amounts, by major currency
    log_deviation: Floats

    @property
    def n_senders(self) -> int:
        return len(self.first_sender)


def draw_institutions(n_banks: int, rng: np.random.Generator) -> Institutions:
    """Institutions and habits whose shares of senders and currencies are the published ones."""
    n_senders = max(min(n_banks, _FEWEST_SENDERS), round(n_banks * SENDERS_PER_BANK))
    shares = _sender_shares(n_senders)
    active = _active_corridors(n_senders, n_banks, rng)
    via = _rows_to_one(active[:, :n_senders] * shares)
    popularity = rng.permutation(1.0 / (2.0 + np.arange(n_banks)))
    taste = rng.lognormal(0.0, 0.8, (n_senders, n_banks))
    final = _rows_to_one(active * popularity * taste)
    first = _first_sender_shares(shares, via, final)
    bics, countries = bank_identifiers(n_banks + N_OUTSIDERS, rng)
    rates = np.log([EXCHANGE_RATES[code] for code in MAJOR_CURRENCIES])
    return Institutions(
        n_banks=n_banks,
        bics=bics,
        countries=countries,
        first_sender=first,
        via=via,
        final=final,
        corridor=_corridor_shares(via, final),
        currency=_currency_shares(first, rng),
        hour=_hour_profiles(n_senders, rng),
        delay=_rows_to_one(rng.uniform(0.7, 1.3, (n_senders, 3)) * (0.72, 0.23, 0.05)),
        log_mean=rates + 8.0 + rng.normal(0.0, 0.35, (n_senders, len(MAJOR_CURRENCIES))),
        log_deviation=rng.uniform(0.9, 1.3, (n_senders, len(MAJOR_CURRENCIES))),
    )


def draw_by_row(shares: Floats, rows: Integers, rng: np.random.Generator) -> Integers:
    """For each entry of `rows` one column, drawn with that row's shares."""
    steps = np.cumsum(shares, axis=1)[:, :-1]
    drawn: Integers = (rng.random(len(rows))[:, None] > steps[rows]).sum(axis=1)
    return drawn


def draw_allowed(allowed: Booleans, rng: np.random.Generator) -> Integers:
    """For each row one of the columns that are allowed in it, all equally likely."""
    drawn: Integers = np.argmax(rng.random(allowed.shape) * allowed, axis=1)
    return drawn


def _sender_shares(n_senders: int) -> Floats:
    """The published shares, cut or continued geometrically, adding up to 1."""
    further = max(0, n_senders - len(SENDER_SHARES))
    tail = SENDER_SHARES[-1] * 0.9 ** np.arange(1, further + 1)
    shares = np.concatenate([SENDER_SHARES, tail])[:n_senders]
    result: Floats = shares / shares.sum()
    return result


def _active_corridors(n_senders: int, n_banks: int, rng: np.random.Generator) -> Booleans:
    """Which pairs are in regular use: every bank is reached, every sender has an unused pair."""
    likely = np.where(np.arange(n_banks) < n_senders, _ACTIVE_AMONG_SENDERS, _ACTIVE_CORRIDORS)
    active = rng.random((n_senders, n_banks)) < likely
    senders = np.arange(n_senders)
    receivers = np.arange(n_banks)
    active[receivers % n_senders, receivers] = True
    active[senders, (senders + 1) % n_senders] = True
    active[senders, (senders + 2) % n_senders] = False
    active[senders, senders] = False
    return active


def _first_sender_shares(message_shares: Floats, via: Floats, final: Floats) -> Floats:
    """Where payments begin, such that all legs together have the wanted shares of senders."""
    legs = np.eye(len(via)) + _passing_on(via, final)
    n_legs = legs.sum(axis=1).mean()
    first = np.linalg.solve(legs.T, n_legs * message_shares)
    # An institution that is mostly passed through still has customers of its own.
    first = np.maximum(first, 0.3 * message_shares)
    result: Floats = first / first.sum()
    return result


def _passing_on(via: Floats, final: Floats) -> Floats:
    """For a payment that begins at a, how many messages x is expected to pass on: [a, x].

    No payment visits an institution twice: a way a-c-d is as likely as its steps, times the chance
    that its last step does not lead back.
    """
    n = len(via)
    back = final[:, :n]
    two_legs = via * (1.0 - back.T)
    three_legs = np.einsum("ac,cd->acd", via, via)
    three_legs *= 1.0 - back.T[:, None, :] - back.T[None, :, :]
    three_legs[np.arange(n), :, np.arange(n)] = 0.0
    third = three_legs.sum(axis=(1, 2))
    passed_on: Floats = LEG_SHARES[1] * _rows_to_one(two_legs)
    exists = third > 0.0
    both = three_legs[exists].sum(axis=2) + three_legs[exists].sum(axis=1)
    passed_on[exists] += LEG_SHARES[2] * both / third[exists, None]
    return passed_on


def _corridor_shares(via: Floats, final: Floats) -> Floats:
    second_leg, third_leg = LEG_SHARES[1] + LEG_SHARES[2], LEG_SHARES[2]
    n_legs = 1.0 + second_leg + third_leg
    corridor: Floats = final / n_legs
    corridor[:, : via.shape[1]] += via * (1.0 - 1.0 / n_legs)
    return corridor


def _currency_shares(first: Floats, rng: np.random.Generator) -> Floats:
    """A currency mix per sender, of its own, with the published mix over all payments."""
    wanted = np.asarray(CURRENCY_SHARES) / sum(CURRENCY_SHARES)
    mix = wanted * rng.lognormal(0.0, 1.0, (len(first), len(wanted)))
    for _ in range(200):  # iterative proportional fitting
        mix = _rows_to_one(mix * wanted / (first @ mix))
    return mix


def _hour_profiles(n_senders: int, rng: np.random.Generator) -> Floats:
    """Strongly peaked: nearly all payments of a sender begin within a few hours of its peak."""
    hours = np.arange(24) + 0.5
    peak = rng.uniform(9.0, 15.0, (n_senders, 1))
    narrow = np.exp(-0.5 * ((hours - peak) / 1.3) ** 2) / 1.3
    broad = np.exp(-0.5 * ((hours - peak - 1.0) / 2.6) ** 2) / 2.6
    return _rows_to_one(0.93 * narrow + 0.07 * broad)


def _rows_to_one(weights: Floats) -> Floats:
    result: Floats = weights / weights.sum(axis=1, keepdims=True)
    return result
