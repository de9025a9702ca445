"""What is added to the end of a message: its place in the chain of its sender, signed.

A stamp has the same size whatever the message.  The salt hides a message behind its digest: logs
are shown to people who may not know what was in a message, and of some there are few.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pv4fad.errors import WireError

HASH_BYTES = 32
SALT_BYTES = 16
_SIGNATURE_BYTES = 64
_MAGIC = b"PV4S"
_VERSION = 1
_PURPOSE = b"pv4fad stamp, version 1"
_LAYOUT = struct.Struct("<4sHQQ32s16sQ32sQ32s64s")
STAMP_BYTES = _LAYOUT.size


@dataclass(frozen=True)
class Mark:
    """How far a chain is: so many entries, and the head after the last of them."""

    number: int
    head: bytes


@dataclass(frozen=True)
class Stamp:
    """One message's place in the chain from its sender to its receiver."""

    number: int
    """From 1."""
    time_ms: int
    """The sender's clock, since 1970."""
    before: bytes
    """The head of the chain before this message."""
    salt: bytes
    seen: Mark
    """What the sender has of the receiver's chain to it."""
    ledger: Mark
    """The sender's own ledger."""
    signature: bytes = b""

    def head(self, content: bytes) -> bytes:
        """The head of the chain after this message; `content`: `content_digest` of it."""
        return hashlib.sha256(self.before + content).digest()

    def signed(self, secret: bytes, sender: str, receiver: str, content: bytes) -> Stamp:
        """By the sender."""
        statement = self._statement(sender, receiver, content)
        signature = Ed25519PrivateKey.from_private_bytes(secret).sign(statement)
        return replace(self, signature=signature)

    def is_signed_by(self, key: bytes, sender: str, receiver: str, content: bytes) -> bool:
        """Whether the owner of this signing key has sent such a message."""
        try:
            public = Ed25519PublicKey.from_public_bytes(key)
            public.verify(self.signature, self._statement(sender, receiver, content))
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_bytes(self) -> bytes:
        """As it stands at the end of a message."""
        return _LAYOUT.pack(
            _MAGIC,
            _VERSION,
            self.number,
            self.time_ms,
            self.before,
            self.salt,
            self.seen.number,
            self.seen.head,
            self.ledger.number,
            self.ledger.head,
            self.signature,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Not checked yet."""
        magic, version, number, time_ms, before, salt, *marks, signature = _LAYOUT.unpack(data)
        if (magic, version) != (_MAGIC, _VERSION):
            raise WireError("a message without a stamp of version 1 at its end")
        return cls(number, time_ms, before, salt, Mark(*marks[:2]), Mark(*marks[2:]), signature)

    def _statement(self, sender: str, receiver: str, content: bytes) -> bytes:
        names = b"".join(len(name).to_bytes(2, "big") + name for name in _encoded(sender, receiver))
        numbers = struct.pack(
            ">QQQQ", self.number, self.time_ms, self.seen.number, self.ledger.number
        )
        heads = self.head(content) + self.seen.head + self.ledger.head
        return b"\x00".join([_PURPOSE, names, numbers, heads])


def content_digest(salt: bytes, message: bytes | memoryview) -> bytes:
    """Of a message, for the chain."""
    hashed = hashlib.sha256(salt)
    hashed.update(message)
    return hashed.digest()


def first_head(sender: str, receiver: str) -> bytes:
    """The head of a chain without a message."""
    return hashlib.sha256(b"\x00".join([_PURPOSE, *_encoded(sender, receiver)])).digest()


def split(data: bytes) -> tuple[bytes, Stamp]:
    """A message, and the stamp at its end."""
    if len(data) <= STAMP_BYTES:
        raise WireError(f"truncated: {len(data)} bytes are no stamped message")
    return data[:-STAMP_BYTES], Stamp.from_bytes(data[-STAMP_BYTES:])


def _encoded(*names: str) -> list[bytes]:
    return [name.encode() for name in names]
