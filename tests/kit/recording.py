"""A training run with everything each party received, and its store just before it did.

From there a party can be asked again: the same message, another one, or with a mask taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.kit.world import KnownNoiseBank, World, make_world

from pv4fad.parties.party import Party
from pv4fad.protocol.wire import Address, Message, decode, encode
from pv4fad.store.records import R, Record, Records
from pv4fad.store.store import MemoryStore


@dataclass(frozen=True)
class Event:
    """One message that arrived, and what was said in answer."""

    data: bytes = field(repr=False)
    kind: type[Message]
    receiver: Party
    before: dict[str, bytes] = field(repr=False)
    after: dict[str, bytes] = field(repr=False)
    replies: list[bytes] = field(repr=False)

    @property
    def message(self) -> Any:
        return decode(self.data)

    def party(self) -> Party:
        """The receiver as it was just before the message."""
        return party_with(self.receiver, self.before)

    def answers(self) -> list[Any]:
        """What the receiver answered."""
        return [decode(reply) for reply in self.replies]

    def replayed(self) -> list[Any]:
        """What the receiver answers if it gets the message at that point once more."""
        return [decode(reply) for reply in self.party().handle(self.data)]


@dataclass
class Recording:
    """All events of a run, in order."""

    world: World
    injected: np.ndarray
    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[Message], receiver: str | None = None) -> list[Event]:
        """The events with this kind of message."""
        return [e for e in self.events if e.kind is kind and receiver in (None, e.receiver.name)]

    def before(self, event: Event, kind: type[R], *place: str | int) -> R:
        """A record that the receiver had when the message came."""
        return self.world.record(event.party(), kind, *place)


def party_with(party: Party, records: dict[str, bytes]) -> Party:
    """The party with another store."""
    clone = copy(party)
    vars(clone).pop("handle", None)
    clone.store = MemoryStore(party.name, records)
    return clone


def record_in(
    records: dict[str, bytes], run_id: str, kind: type[R], *place: str | int, epoch: int = 0
) -> R | None:
    """A record among those of a store as they were at some time."""
    with MemoryStore("", records).transaction() as tx:
        return Records(tx, run_id, epoch).find(kind, *place)


def kinds_kept(
    party: Party, run_id: str, kinds: Iterable[type[Record]], epoch: int = 0
) -> set[type[Record]]:
    """Of these kinds, those that a party has records of, of training or of a later match."""
    with party.store.transaction() as tx:
        records = Records(tx, run_id, epoch)
        return {kind for kind in kinds if records.has(kind) or any(records.places(kind))}


def small_world(seed: int) -> tuple[World, np.ndarray]:
    """Two banks, a table for each and a broadcast table, sealed, with noise that tests know."""
    world = make_world(
        seed,
        n_banks=2,
        mode="mixed",
        n_trees=16,
        epsilon=Fraction(1),
        noise="distributed",
        honest_banks=2,
        bank_class=KnownNoiseBank,
    )
    return world, world.inject_noise(np.random.default_rng(seed))


@cache
def recorded_run() -> Recording:
    """One run for all tests that look into it."""
    recording = Recording(*small_world(seed=1))
    record(recording)
    recording.world.train()
    return recording


def record(recording: Recording) -> None:
    """From now on all messages in its world."""

    def recorded(party: Party) -> Callable[[bytes], list[bytes]]:
        handle = party.handle

        def wrapper(data: bytes) -> list[bytes]:
            before = party.store.snapshot()
            replies = handle(data)
            after = party.store.snapshot()
            event = Event(bytes(data), type(decode(data)), party, before, after, replies)
            recording.events.append(event)
            return replies

        return wrapper

    federation = recording.world.federation
    for party in (federation.payment_network, *federation.banks, federation.aggregator):
        party.handle = recorded(party)


def changed(message: Message, **changes: Any) -> bytes:
    """The message with other fields, or with other entries in its address."""
    entries = {one.name for one in fields(Address)}
    address = {name: changes.pop(name) for name in list(changes) if name in entries}
    return encode(replace(message, address=replace(message.address, **address), **changes))


def spy_on_masks(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[tuple[str, bytes]]:
    """Whose pairwise masks are made from now on, and in which context."""
    made, pairwise_mask = [], module.pairwise_mask

    def spy(own: str, seeds: Any, context: bytes, **sizes: int) -> Any:
        made.append((own, context))
        return pairwise_mask(own, seeds, context, **sizes)

    monkeypatch.setattr(module, "pairwise_mask", spy)
    return made
