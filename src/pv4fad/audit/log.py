"""A party's log of messages, in its store: one chain to and one from every other party.

A chain belongs to the other party's key: with new keys a party begins new chains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pv4fad.audit.stamp import SALT_BYTES, Mark, Stamp, first_head
from pv4fad.privacy.ledger import Restored, raw_entries, restored_entry
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Transaction

Direction = Literal["sent", "received"]


@dataclass(frozen=True)
class Entry(Record):
    """One message of a chain."""

    of_all_runs: ClassVar[bool] = True

    message: str
    """Its id."""
    content: bytes
    stamp: bytes


@dataclass(frozen=True)
class Head(Record):
    """How long a chain is, and whose key the other party's is."""

    of_all_runs: ClassVar[bool] = True

    number: int
    head: bytes
    key: bytes


@dataclass(frozen=True)
class NumberOf(Record):
    """Of a message that was sent."""

    of_all_runs: ClassVar[bool] = True

    number: int


@dataclass(frozen=True)
class LedgerSalt(Record):
    """Hides the entries of a ledger behind its head."""

    of_all_runs: ClassVar[bool] = True

    salt: bytes = field(repr=False)


@dataclass(frozen=True)
class Chain:
    """The messages to or from another party, as this party keeps them."""

    log: Records
    direction: Direction
    own: str
    other: str
    key: bytes
    """The other's signing key."""

    @classmethod
    def all_of(cls, log: Records, own: str) -> Iterator[Chain]:
        """Every chain in a party's log."""
        for place in log.places(Head):
            direction, other, _ = place
            key = log.get(Head, *place).key
            yield cls(log, "sent" if direction == "sent" else "received", own, other, key)

    def last(self) -> Mark:
        kept = self.log.find(Head, *self._place)
        return self.first() if kept is None else Mark(kept.number, kept.head)

    def first(self) -> Mark:
        """Before the first message."""
        ends = (self.own, self.other)
        return Mark(0, first_head(*(ends if self.direction == "sent" else ends[::-1])))

    def entry(self, number: int) -> Entry | None:
        return self.log.find(Entry, *self._place, number)

    def entries(self) -> list[Entry]:
        """In order; numbers may be missing in a chain that was received."""
        numbers = sorted(int(number) for (number,) in self.log.places(Entry, *self._place))
        return [self.log.get(Entry, *self._place, number) for number in numbers]

    def head_at(self, number: int) -> bytes | None:
        """After so many messages, if they are there."""
        if number == 0:
            return self.first().head
        entry = self.entry(number)
        return None if entry is None else _head(entry)

    def number_of(self, message: str) -> int | None:
        """Of a message that was sent before."""
        kept = self.log.find(NumberOf, *self._named(message))
        return None if kept is None else kept.number

    def append(self, message: str, content: bytes, stamp: Stamp) -> None:
        self.log.put(Entry(message, content, stamp.to_bytes()), *self._place, stamp.number)
        self.log.put(Head(stamp.number, stamp.head(message, content), self.key), *self._place)
        if self.direction == "sent":
            self.log.put(NumberOf(stamp.number), *self._named(message))

    def take_in(self, message: str, content: bytes, stamp: Stamp) -> None:
        """A message of this chain that the other party holds and this one has lost."""
        last = self.last()
        if stamp.number > last.number:
            self.append(message, content, stamp)
        else:
            self.log.put(Entry(message, content, stamp.to_bytes()), *self._place, stamp.number)
            if self.direction == "sent":
                self.log.put(NumberOf(stamp.number), *self._named(message))

    @property
    def _place(self) -> tuple[str, str, str]:
        return self.direction, self.other, self._fingerprint

    @property
    def _fingerprint(self) -> str:
        return hashlib.sha256(self.key).hexdigest()[:16]

    def _named(self, message: str) -> tuple[str, ...]:
        return self.other, self._fingerprint, hashlib.sha256(message.encode()).hexdigest()


def _head(entry: Entry) -> bytes:
    return Stamp.from_bytes(entry.stamp).head(entry.message, entry.content)


def ledger_salt(tx: Transaction) -> bytes:
    """Of this party; drawn on first use."""
    log = Records.of_party(tx)
    kept = log.find(LedgerSalt)
    if kept is None:
        kept = LedgerSalt(secret_bytes(SALT_BYTES))
        log.put(kept)
    return kept.salt


def ledger_mark(tx: Transaction) -> Mark:
    """How far this party's ledger is."""
    return ledger_marks(ledger_salt(tx), raw_entries(tx))[-1]


def lost_entries(entries: Iterable[bytes]) -> list[tuple[range, Restored]]:
    """The numbers of the entries that a ledger lost when it was restored, from 1."""
    lost, number = [], 0
    for entry in entries:
        restored = restored_entry(entry)
        if restored is not None:
            lost.append((range(number + 1, restored.entries + 1), restored))
            number = restored.entries
        number += 1
    return lost


def ledger_marks(salt: bytes, entries: Iterable[bytes]) -> list[Mark]:
    """After no entry, the first one, and so on; without those of entries that were lost."""
    marks = [Mark(0, hashlib.sha256(salt).digest())]
    for entry in entries:
        restored = restored_entry(entry)
        if restored is not None:  # it follows those that are lost
            marks.append(Mark(restored.entries, bytes.fromhex(restored.head)))
        digest = hashlib.sha256(salt + entry).digest()
        last = marks[-1]
        marks.append(Mark(last.number + 1, hashlib.sha256(last.head + digest).digest()))
    return marks
