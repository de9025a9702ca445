"""Who a party is: long-term keys, and the signed X25519 key it shows to others (protocol §8.0).

The Ed25519 key signs.  The X25519 key is the long-term one, on the party's card, or one that a bank
has made for the masks of one run.  A presented identity proves that its X25519 key, name and run
belong to its Ed25519 key.  That the Ed25519 key belongs to the right company
has to be known from elsewhere: compare it with `require_signed_by`, or whoever relays the keys can
put itself in the middle.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pv4fad.errors import ParameterError, ProtocolError, StoreError
from pv4fad.privacy.pairwise import PairwiseKey
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store

KEY_BYTES = 32
SIGNATURE_BYTES = 64
MAX_NAME_BYTES = 128

_PUBLIC_MAGIC = b"PV4P\x01"
_SIGNED = b"pv4fad identity, version 1\x00"
_SIGNED_FOR_RUN = b"pv4fad identity for a run, version 1\x00"


@dataclass(frozen=True)
class PublicIdentity:
    """Name, Ed25519 key, X25519 key, and the signature over name, run and X25519 key; verified."""

    name: str
    signing_key: bytes
    pairwise_key: bytes
    signature: bytes
    run_id: str = ""
    """Of a key for one run; empty: the long-term key."""

    def __post_init__(self) -> None:
        if len(self.pairwise_key) != KEY_BYTES:
            raise ProtocolError(f"the X25519 key of {self.name} does not have {KEY_BYTES} bytes")
        try:
            key = Ed25519PublicKey.from_public_bytes(self.signing_key)
            key.verify(self.signature, _statement(self.name, self.pairwise_key, self.run_id))
        except (InvalidSignature, ValueError):
            of = f" for run {self.run_id}" if self.run_id else ""
            raise ProtocolError(f"the X25519 key of {self.name} is not signed by it{of}") from None

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.signing_key)

    def require_signed_by(self, expected_signing_key: bytes) -> None:
        """Refuse an identity that is not the one known from elsewhere."""
        if self.signing_key != expected_signing_key:
            raise ProtocolError(f"{self.name} presents another signing key than the known one")

    def to_bytes(self) -> bytes:
        """For the wire."""
        keys = self.signing_key + self.pairwise_key + self.signature
        return _PUBLIC_MAGIC + keys + self.name.encode()

    @classmethod
    def from_bytes(cls, data: bytes, run_id: str = "") -> Self:
        """A presented identity, verified; `run_id`: of the run that its key is for."""
        name, keys = _split(data, _PUBLIC_MAGIC, 2 * KEY_BYTES + SIGNATURE_BYTES)
        return cls(name, keys[:32], keys[32:64], keys[64:], run_id)


@dataclass(frozen=True)
class Identity(Record):
    """A party's own secret keys (raw bytes); belongs into its store and nowhere else."""

    of_all_runs: ClassVar[bool] = True

    name: str
    signing_secret: bytes = field(repr=False)
    pairwise_secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not (1 <= len(self.name.encode()) <= MAX_NAME_BYTES and self.name.isprintable()):
            raise ParameterError(f"a party's name has 1 to {MAX_NAME_BYTES} printable bytes")

    @classmethod
    def generate(cls, name: str) -> Self:
        """Fresh keys."""
        return cls(name, secret_bytes(KEY_BYTES), secret_bytes(KEY_BYTES))

    def public(self) -> PublicIdentity:
        """What the others may see."""
        return self._signed(PairwiseKey(self.name, self.pairwise_secret), "")

    def for_run(self, key: PairwiseKey, run_id: str) -> PublicIdentity:
        """The same party with a key that it has made for one run."""
        return self._signed(key, run_id)

    def _signed(self, key: PairwiseKey, run_id: str) -> PublicIdentity:
        own = Ed25519PrivateKey.from_private_bytes(self.signing_secret)
        signature = own.sign(_statement(self.name, key.public, run_id))
        signing_key = own.public_key().public_bytes_raw()
        return PublicIdentity(self.name, signing_key, key.public, signature, run_id)


def stored_identity(store: Store) -> Identity | None:
    """The keys in a party's store, if there are any."""
    with store.transaction() as tx:
        return Records.of_party(tx).find(Identity)


def create_identity(store: Store) -> Identity:
    """New keys for a new party, kept in its store."""
    identity = Identity.generate(store.party)
    with store.transaction() as tx:
        records = Records.of_party(tx)
        if records.has(Identity):
            raise StoreError(f"the store of {store.party} has keys already")
        records.put(identity)
    return identity


def identity_in(store: Store) -> Identity:
    """The keys in a party's store, which are created on first use."""
    return stored_identity(store) or create_identity(store)


def fingerprint_of(signing_key: bytes) -> str:
    """For people to compare."""
    return hashlib.sha256(signing_key).hexdigest()


def _statement(name: str, pairwise_key: bytes, run_id: str) -> bytes:
    if not run_id:
        return _SIGNED + pairwise_key + name.encode()
    run = run_id.encode()
    return b"".join([_SIGNED_FOR_RUN, pairwise_key, bytes([len(run)]), run, name.encode()])


def _split(data: bytes, magic: bytes, n_key_bytes: int) -> tuple[str, bytes]:
    """The name and the keys; every field but the name, which is last, has a fixed length."""
    keys, name = data[len(magic) : len(magic) + n_key_bytes], data[len(magic) + n_key_bytes :]
    if not data.startswith(magic) or not 1 <= len(name) <= MAX_NAME_BYTES:
        raise ProtocolError("bytes that are not an identity of version 1")
    text = name.decode(errors="replace")
    if text.encode() != name or not text.isprintable():
        raise ProtocolError("an identity whose name is not text")
    return text, keys
