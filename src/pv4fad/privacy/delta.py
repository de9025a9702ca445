"""A bank's account of δ: what the claim of ε leaves to chance, added up over all runs.

ε holds up to δ: the statistical distance of sanitised ciphertexts from uniform, and the probability
that a record is taken for another one.  Both are tiny for one match or one round of questions, and
both add up: every match and every answer is charged, before the answer leaves, over all runs.  A
bank refuses what would take the last 365 days above its limit.

Amounts are exact fractions, rounded up when they are charged.  What is charged on one day is one
record; the records of earlier days never change.

    match     four rounds of ciphertexts, and false matches; in training also what is counted
    scoring   answered questions or votes
    live      a day's live queries, as many as the bank allows, before the first is answered
    restored  what a store that was restored had forgotten (docs/operate/backup.md)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, log2
from typing import Literal, Protocol, get_args

from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.privacy.days import why_ahead

Kind = Literal["match", "scoring", "live", "restored"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_LIMIT = Fraction(1, 2**10)
"""Of a year, for a bank that has set none."""

_YEAR = timedelta(days=365)
_PREFIX = "delta/"
_TOTAL = "delta-total"
_STEP_BITS = 160  # amounts are whole multiples of 2^-160
_ABOVE = 1 + 2**-30  # far more than the rounding of floating point
_LIMIT = re.compile(r"2\^-([0-9]{1,3})|0?\.[0-9]{1,30}|[0-9](\.[0-9]{1,9})?e-[0-9]{1,2}")


class Records(Protocol):
    """What the account needs in order to read: a store, or a transaction of one."""

    def get(self, key: str) -> bytes | None: ...
    def keys(self, prefix: str = "") -> list[str]: ...


class WritableRecords(Records, Protocol):
    """What it needs in order to write: a transaction."""

    def put(self, key: str, value: bytes) -> None: ...


@dataclass(frozen=True)
class Day:
    """What was charged on one day (UTC)."""

    day: date
    charged: dict[str, Fraction]

    @property
    def total(self) -> Fraction:
        return sum(self.charged.values(), Fraction(0))


@dataclass(frozen=True)
class DeltaAccount:
    """All that was ever charged, by day."""

    days: tuple[Day, ...] = ()
    limit: Fraction = DEFAULT_LIMIT

    def of_year(self, until: date) -> Fraction:
        """Over the 365 days that end with this one; later days, if there are any, count as well."""
        return sum((d.total for d in self.days if d.day > until - _YEAR), Fraction(0))

    def of_kind(self, kind: Kind, until: date) -> Fraction:
        """The part of a kind in it."""
        days = (d for d in self.days if d.day > until - _YEAR)
        return sum((d.charged.get(kind, Fraction(0)) for d in days), Fraction(0))

    @property
    def total(self) -> Fraction:
        return sum((d.total for d in self.days), Fraction(0))

    @property
    def latest(self) -> str:
        """The latest day on which something was charged; nothing if there is none."""
        return max((d.day.isoformat() for d in self.days), default="")


def read_account(records: Records, limit: Fraction) -> DeltaAccount:
    """The account in a bank's store, under its limit."""
    return DeltaAccount(tuple(_read(records, day) for day in _days(records)), limit)


def charge(
    records: WritableRecords, kind: Kind, amount: Fraction, limit: Fraction, now: datetime
) -> None:
    """Enter an amount; `BudgetError`, and nothing is entered, if it does not fit the year."""
    days = _days(records)
    # A clock that was set back does not make the year longer.
    today = max([now.date(), *days[-1:]])
    account = DeltaAccount(tuple(_read(records, day) for day in days if day > today - _YEAR), limit)
    before = account.of_year(today)
    if before + amount > limit:
        raise BudgetError(
            f"δ: {delta_text(amount)} more would take the year to {delta_text(before + amount)},"
            f" above this party's limit {delta_text(limit)}. To allow it, this party sets its own"
            " limit: pv4fad ledger set-delta-limit FOLDER DELTA"
            f"{why_ahead(now.date().isoformat(), today.isoformat())}"
        )
    charged = _read(records, today).charged if today in days else {}
    charged = charged | {kind: charged.get(kind, Fraction(0)) + amount}
    texts = {name: str(value) for name, value in charged.items()}
    total = total_charged(records) + amount
    records.put(_key(today), json.dumps(texts).encode())
    records.put(_TOTAL, str(total).encode())


def charge_forgotten(records: WritableRecords, amount: Fraction, now: datetime) -> None:
    """Enter what was charged before and is no longer in this account, whatever the limit."""
    charge(records, "restored", amount, Fraction(2**64), now)


def total_charged(records: Records) -> Fraction:
    """All that was ever charged, without a look at each day."""
    try:
        noted = records.get(_TOTAL)
        if noted is not None:
            return Fraction(noted.decode())
    except ValueError:
        raise StoreError("the total of δ is damaged") from None
    return read_account(records, DEFAULT_LIMIT).total  # of a store that has no such record yet


def upper_bound(log2_terms: Iterable[float]) -> Fraction:
    """The sum of 2^term, as a fraction that is not below it."""
    steps = sum(ceil(Fraction(2.0**term * _ABOVE) * 2**_STEP_BITS) for term in log2_terms)
    return Fraction(steps, 2**_STEP_BITS)


def delta_text(delta: Fraction) -> str:
    """As a power of two, rounded up to a tenth: 2^-13.2."""
    if delta == 0:
        return "0"
    bits = log2(delta.numerator) - log2(delta.denominator)
    return f"2^{ceil(bits * 10 - 1e-9) / 10:.1f}".removesuffix(".0")


def parse_delta(text: str) -> Fraction:
    """A limit as people write it: 2^-10, 0.001 or 1e-3."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ParameterError(f"δ {text[:40]!a}: expected a number below 1, such as 2^-10 or 1e-6")
    return Fraction(1, 2 ** int(found[1])) if found[1] else Fraction(text)


def _key(day: date) -> str:
    return f"{_PREFIX}{day.isoformat()}"


def _days(records: Records) -> list[date]:
    """The days on which something was charged, in order."""
    return [date.fromisoformat(key.removeprefix(_PREFIX)) for key in records.keys(_PREFIX)]


def _read(records: Records, day: date) -> Day:
    try:
        entries = json.loads(records.get(_key(day)) or b"")
        return Day(day, {name: Fraction(value) for name, value in entries.items()})
    except ValueError:
        raise StoreError(f"the account of δ of {day} is damaged") from None
