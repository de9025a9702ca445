"""A bank's ledger: the ε it has spent, over all versions of its account file (protocol §5.6), and
its account of δ (`delta`).

The ledger only grows.  Limits, of ε and of δ, and expenses are permanent records, numbered in
order; the limit in force is the last one of its kind, the amount spent is the sum of all expenses.
Amounts are exact fractions.  A ledger that was restored from a backup says by an entry of its own
what it had spent until then, by what it has told others (`Restored`).

Spend before release: `spend` belongs into the transaction that stores the noisy values, which are
sent only after it has ended.  A crash in between has spent ε for values that were stored and will
be sent again unchanged; it can never un-spend.

Noise off (ε `none`) reveals without bound: it is refused unless the bank's limit is `none`, and
after it no finite limit has anything left.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from math import ceil, inf
from typing import Any, Self

from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.privacy.delta import (
    DEFAULT_LIMIT,
    DeltaAccount,
    Kind,
    Records,
    WritableRecords,
    charge,
    charge_forgotten,
    read_account,
    total_charged,
)
from pv4fad.privacy.effective import effective_epsilon
from pv4fad.privacy.epsilon import Epsilon, epsilon_text

PREFIX = "permanent/ledger/"  # the store refuses to change or delete what is named `permanent/`
VERSION = 4  # ledgers that were restored
_READABLE = (3, 4)
"""Entries never change, so each version that wrote some stays readable."""


@dataclass(frozen=True)
class Expense:
    """One run's ε and what it was spent on."""

    run_id: str
    epsilon: Epsilon
    sensitivity: int  # Δ
    unit: str  # whose presence ε hides, in words
    noise: str  # distributed, per-bank or none
    account_file: str  # fingerprint of the version that was used
    time: datetime
    honest_banks: int  # H; 1 unless the noise is distributed

    def __post_init__(self) -> None:
        if (self.epsilon == "none") != (self.noise == "none"):
            raise ParameterError("ε is none exactly if the noise is none")
        if isinstance(self.epsilon, Fraction) and self.epsilon <= 0:
            raise ParameterError("ε must be above 0")
        if self.sensitivity < 1:
            raise ParameterError("the sensitivity Δ must be at least 1")
        if self.honest_banks < 1:
            raise ParameterError("honest_banks must be at least 1")
        if self.honest_banks > 1 and self.noise != "distributed":
            raise ParameterError("only distributed noise relies on others")
        _require_zone(self.time)

    @property
    def epsilon_alone(self) -> float:
        """The ε that holds even if no bank but this one is honest; infinite without noise."""
        if isinstance(self.epsilon, str):
            return inf
        return effective_epsilon(self.epsilon, self.sensitivity, self.honest_banks)

    def same_release(self, other: Expense) -> bool:
        """Equal in all but the time: the same run, continued."""
        return self == replace(other, time=self.time)


@dataclass(frozen=True)
class Limit:
    """What the bank decided to allow in total."""

    epsilon: Epsilon
    time: datetime

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, Fraction) and self.epsilon < 0:
            raise ParameterError("a limit for ε cannot be negative")
        _require_zone(self.time)


@dataclass(frozen=True)
class DeltaLimit:
    """What the bank decided to leave to chance in a year."""

    delta: Fraction
    time: datetime

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise ParameterError("a limit for δ lies between 0 and 1")
        _require_zone(self.time)


@dataclass(frozen=True)
class Restored:
    """Entries are lost: the ledger had `entries` of them, and what they came to is known."""

    entries: int
    head: str
    """Of the ledger after them, in hex, as others hold it under this party's signature."""
    epsilon: Epsilon
    """Spent until then, in all."""
    witnesses: tuple[str, ...]
    """Who held that."""
    time: datetime

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, Fraction) and self.epsilon < 0:
            raise ParameterError("what was spent cannot be negative")
        _require_zone(self.time)


Entry = Expense | Limit | DeltaLimit | Restored


@dataclass(frozen=True)
class Spent:
    """What a ledger comes to in all, in steps, rounded up: how a party shows it to others."""

    epsilon_steps: int
    """Of 2^-32; the largest number: no bound."""
    delta_steps: int
    """Of 2^-64, over all years."""

    @classmethod
    def of(cls, epsilon: Epsilon, delta: Fraction) -> Self:
        steps = _NO_BOUND if isinstance(epsilon, str) else min(_NO_BOUND, ceil(epsilon * 2**32))
        return cls(steps, min(_NO_BOUND, ceil(delta * 2**64)))

    @property
    def epsilon(self) -> Epsilon:
        """Not below what was spent."""
        steps = self.epsilon_steps
        return "none" if steps == _NO_BOUND else Fraction(steps, 2**32)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.delta_steps, 2**64)

    def with_at_least(self, other: Spent) -> Spent:
        """The larger of each."""
        return Spent(
            max(self.epsilon_steps, other.epsilon_steps), max(self.delta_steps, other.delta_steps)
        )

    def covers(self, other: Spent) -> bool:
        """Whether nothing of the other is missing here."""
        return self == self.with_at_least(other)


_NO_BOUND = 2**64 - 1


@dataclass(frozen=True)
class Ledger:
    """All that a bank's ledger says."""

    entries: tuple[Entry, ...]
    delta: DeltaAccount = field(default_factory=DeltaAccount)

    @property
    def expenses(self) -> tuple[Expense, ...]:
        """In the order they were made."""
        return tuple(entry for entry in self.entries if isinstance(entry, Expense))

    @property
    def limit(self) -> Epsilon | None:
        """The limit in force; None if the bank has never set one."""
        limits = [entry.epsilon for entry in self.entries if isinstance(entry, Limit)]
        return limits[-1] if limits else None

    @property
    def spent(self) -> Epsilon:
        """The sum over all runs; `none` if one of them had no noise."""
        total = Fraction(0)
        for entry in self.entries:
            if not isinstance(entry, Expense | Restored):
                continue
            if isinstance(entry.epsilon, str):
                return entry.epsilon
            if isinstance(entry, Expense):
                total += entry.epsilon
            else:
                total = max(total, entry.epsilon)
        return total

    @property
    def left(self) -> Epsilon:
        """What may still be spent; `none` if there is no bound."""
        if isinstance(self.limit, str):
            return self.limit
        if self.limit is None or isinstance(self.spent, str):
            return Fraction(0)
        return max(Fraction(0), self.limit - self.spent)


def read_ledger(records: Records) -> Ledger:
    """The ledger in a bank's store."""
    entries = _entries(records)
    return Ledger(entries, read_account(records, _delta_limit(entries)))


def _entries(records: Records) -> tuple[Entry, ...]:
    entries = []
    for number, key in enumerate(records.keys(PREFIX)):
        raw = records.get(key)
        if raw is None or key != _key(number):
            raise StoreError(f"ledger entry {number + 1} is missing")
        entries.append(decode_entry(raw))
    return tuple(entries)


def _delta_limit(entries: tuple[Entry, ...]) -> Fraction:
    limits = [entry.delta for entry in entries if isinstance(entry, DeltaLimit)]
    return limits[-1] if limits else DEFAULT_LIMIT


def raw_entries(records: Records) -> list[bytes]:
    """As they are kept, the oldest first."""
    return [records.get(key) or b"" for key in records.keys(PREFIX)]


def spent_in_all(records: Records) -> Spent:
    """What the ledger comes to."""
    return Spent.of(Ledger(_entries(records)).spent, total_charged(records))


def restored_entry(raw: bytes) -> Restored | None:
    """An entry as it is kept, if it says that others before it are lost."""
    entry = decode_entry(raw)
    return entry if isinstance(entry, Restored) else None


def note_restored(records: WritableRecords, restored: Restored) -> None:
    """Entries were lost: from now on the ledger counts what they came to."""
    _append(records, read_ledger(records), restored)


def note_forgotten_delta(records: WritableRecords, spent: Spent, now: datetime) -> None:
    """Charge what the account lacks of what was shown."""
    missing = spent.delta - total_charged(records)
    if missing > 0:
        charge_forgotten(records, missing, now)


def set_limit(records: WritableRecords, limit: Epsilon, time: datetime) -> None:
    """Set the bank's own limit; nothing is written if it is the limit already."""
    ledger = read_ledger(records)
    if ledger.limit != limit:
        _append(records, ledger, Limit(limit, time))


def set_delta_limit(records: WritableRecords, delta: Fraction, time: datetime) -> None:
    """Set the bank's own limit of δ for a year; nothing is written if it is the limit already."""
    ledger = read_ledger(records)
    if ledger.delta.limit != delta:
        _append(records, ledger, DeltaLimit(delta, time))


def charge_delta(records: WritableRecords, kind: Kind, amount: Fraction, time: datetime) -> None:
    """Enter what is left to chance, before it happens; `BudgetError` if it does not fit."""
    charge(records, kind, amount, _delta_limit(_entries(records)), time)


def spend(records: WritableRecords, expense: Expense) -> None:
    """Note the expense, once per run; `BudgetError` if it does not fit."""
    ledger = read_ledger(records)
    if not _is_noted(ledger, expense):
        _require_left(ledger, expense)
        _append(records, ledger, expense)


def require_affordable(records: Records, expense: Expense) -> None:
    """`BudgetError` if `spend` would refuse this expense; writes nothing."""
    ledger = read_ledger(records)
    if not _is_noted(ledger, expense):
        _require_left(ledger, expense)


def _is_noted(ledger: Ledger, expense: Expense) -> bool:
    for earlier in ledger.expenses:
        if earlier.run_id == expense.run_id:
            if earlier.same_release(expense):
                return True
            raise BudgetError(
                f"run {expense.run_id} has already spent ε = {epsilon_text(earlier.epsilon)} here,"
                " on other terms; a new release needs a new run"
            )
    return False


def _require_left(ledger: Ledger, expense: Expense) -> None:
    wanted, limit, left = expense.epsilon, ledger.limit, ledger.left
    how = "To allow it, this party sets its own limit: pv4fad ledger set-limit FOLDER EPSILON"
    if limit is None:
        raise BudgetError(f"this party has not set a limit for ε, so it spends nothing. {how}")
    if isinstance(left, str):
        return
    if isinstance(wanted, str):
        raise BudgetError(
            f"run {expense.run_id} has no noise, which no finite limit allows"
            f" (limit {epsilon_text(limit)}). {how}"
        )
    if wanted > left:
        raise BudgetError(
            f"run {expense.run_id} needs ε = {epsilon_text(wanted)}, but {epsilon_text(left)} of"
            f" this party's limit {epsilon_text(limit)} is left"
            f" (spent: {epsilon_text(ledger.spent)}). {how}"
        )


def _append(records: WritableRecords, ledger: Ledger, entry: Entry) -> None:
    records.put(_key(len(ledger.entries)), _encode(entry))


def _key(number: int) -> str:
    return f"{PREFIX}{number:09d}"


_KINDS: dict[str, type[Entry]] = {
    "expense": Expense,
    "limit": Limit,
    "delta-limit": DeltaLimit,
    "restored": Restored,
}
_AMOUNTS = ("epsilon", "delta")


def _encode(entry: Entry) -> bytes:
    (kind,) = (name for name, type_ in _KINDS.items() if isinstance(entry, type_))
    fields = asdict(entry)
    texts = {name: str(fields[name]) for name in _AMOUNTS if name in fields}
    texts["time"] = entry.time.isoformat()
    return json.dumps({"version": VERSION, "kind": kind} | fields | texts).encode()


def decode_entry(raw: bytes) -> Entry:
    """One entry, as it is kept."""
    fields: dict[str, Any] = json.loads(raw)
    version, kind = fields.pop("version"), fields.pop("kind")
    if version not in _READABLE:
        raise StoreError(
            f"ledger entry of version {version}, this program reads {_READABLE[0]} to {VERSION}:"
            " use the program that wrote it, or begin a new store with the limit reduced by what"
            " was spent"
        )
    # Not `parse_epsilon`: code may set amounts with more digits than a person may type.
    for name in _AMOUNTS:
        if name in fields and fields[name] != "none":
            fields[name] = Fraction(fields[name])
    fields["time"] = datetime.fromisoformat(fields["time"])
    if "witnesses" in fields:
        fields["witnesses"] = tuple(fields["witnesses"])
    return _KINDS[kind](**fields)


def _require_zone(time: datetime) -> None:
    if time.tzinfo is None:
        raise ParameterError("the time of a ledger entry needs a time zone")
