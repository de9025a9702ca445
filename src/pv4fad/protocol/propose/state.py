"""What the parties keep of propose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.forest_file import from_document, to_document
from pv4fad.forest.pairs import GroupCounts
from pv4fad.he.keys import PublicKey, SecretKey
from pv4fad.he.ring import RingParameters
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.store.records import Record

# The payment network.


@dataclass(frozen=True)
class NetworkSecret(Record):
    """The secret key of one of the payment network's rings; one for each, by name."""

    secret: bytes = field(repr=False)

    def key(self, ring: RingParameters) -> SecretKey:
        return SecretKey(ring, self.secret)


@dataclass(frozen=True)
class BankPublic(Record):
    """What a bank has shown; one for each bank."""

    name: str  # of the key
    public_key: bytes = field(repr=False)
    identity: bytes = field(repr=False)

    def key(self, ring: RingParameters) -> PublicKey:
        return PublicKey(ring, self.name, self.public_key)


@dataclass(frozen=True)
class CountedAccounts(Record):
    """What each account counts in each group or cell (`GroupCounts`), and the sets of each."""

    start: NDArray[np.int64] = field(repr=False)
    key: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.int64] = field(repr=False)
    n_path: NDArray[np.int64] = field(repr=False)
    sets: tuple[tuple[AtomSet, ...], ...] = field(repr=False)

    def counts(self) -> GroupCounts:
        return GroupCounts(self.start, self.key, self.weight, self.n_path)


@dataclass(frozen=True)
class StoredTrees(Record):
    """The paper's model: the forest as a document, and the labels that need no bank."""

    forest: dict[str, Any] = field(repr=False)
    green_labels: NDArray[np.int8] = field(repr=False)

    @classmethod
    def of(cls, trees: Trees) -> StoredTrees:
        return cls(to_document(trees.forest), trees.green_labels)

    def trees(self) -> Trees:
        return Trees(from_document(self.forest), self.green_labels)


# A bank.


@dataclass(frozen=True)
class OwnKeys(Record):
    """The bank's key pair for shares."""

    name: str
    secret: bytes = field(repr=False)
    public: bytes = field(repr=False)

    def secret_key(self, ring: RingParameters) -> SecretKey:
        return SecretKey(ring, self.secret)


@dataclass(frozen=True)
class AccountFile(Record):
    """The version of the account file that a match began with."""

    fingerprint: str


@dataclass(frozen=True)
class MaskKey(Record):
    """The bank's X25519 secret for the masks of this run; until it has met the other banks."""

    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class MaskSeeds(Record):
    """What the bank shares with each other bank of the run, by purpose; in hex."""

    seeds: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, seeds: Mapping[str, bytes]) -> MaskSeeds:
        return cls({name: seed.hex() for name, seed in seeds.items()})

    def by_bank(self) -> dict[str, bytes]:
        return {name: bytes.fromhex(seed) for name, seed in self.seeds.items()}


SUMS, ANSWERS = "sums", "answers"
"""What a bank masks: the noisy sums, once, after which these seeds are forgotten; and answers."""


# All of them.


@dataclass(frozen=True)
class PublicKeys(Record):
    """Those of the payment network in one of its rings; one for each, by name."""

    name: str
    public: bytes = field(repr=False)
    relinearisation: bytes = field(repr=False)

    def key(self, ring: RingParameters) -> PublicKey:
        return PublicKey(ring, self.name, self.public, self.relinearisation or None)
