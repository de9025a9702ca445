"""What is added to the end of a message: its place in the chain of its sender, signed.

A stamp has the same size whatever the message.  The salt hides a message behind its digest: logs
are shown to people who may not know what was in a message, and of some there are few.  All else
that a log says of a message is signed, so its receiver cannot write anything else into its own.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pv4fad.errors import WireError
from pv4fad.privacy.ledger import Spent
from pv4fad.protocol.wire_fields import Buffer

HASH_BYTES = 32
SALT_BYTES = 16
_SIGNATURE_BYTES = 64
_MAGIC = b"PV4S"
_VERSION = 3  # the message's id, a proposal's commitment, and which messages have arrived
_PURPOSES = {version: b"pv4fad stamp, version %d" % version for version in (1, 2, 3)}
_LAYOUTS = {
    1: struct.Struct("<4sHQQ32s16sQ32sQ32s64s"),
    2: struct.Struct("<4sHQQ32s16sQ32sQ32sQQ64s"),
    3: struct.Struct("<4sHQQ32s16sQ32sQ32sQQQ32s64s"),
}
_VERSION_OF_SIZE = {layout.size: version for version, layout in _LAYOUTS.items()}
STAMP_BYTES = _LAYOUTS[_VERSION].size
NO_COMMITMENT = bytes(HASH_BYTES)
N_ARRIVED = 64
"""Of so many messages a stamp says whether they have arrived."""


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
    spent: Spent | None
    """What that comes to; None: stamps of version 1, in logs, do not say."""
    arrived: int | None
    """Bit i: whether the receiver's message `seen.number` − i has arrived; None: stamps up to
    version 2, in logs, do not say, and do not sign the id of their message."""
    commitment: bytes = NO_COMMITMENT
    """Of a proposal: what the payment network commits to."""
    signature: bytes = b""

    def head(self, message: str, content: bytes) -> bytes:
        """The head of the chain after this message: its id, and `content_digest` of it."""
        said = self.commitment + message.encode() if self._version > 2 else b""
        return hashlib.sha256(self.before + content + said).digest()

    def signed(
        self, secret: bytes, sender: str, receiver: str, message: str, content: bytes
    ) -> Stamp:
        """By the sender."""
        statement = self._statement(sender, receiver, message, content)
        signature = Ed25519PrivateKey.from_private_bytes(secret).sign(statement)
        return replace(self, signature=signature)

    def is_signed_by(
        self, key: bytes, sender: str, receiver: str, message: str, content: bytes
    ) -> bool:
        """Whether the owner of this signing key has sent such a message."""
        try:
            public = Ed25519PublicKey.from_public_bytes(key)
            public.verify(self.signature, self._statement(sender, receiver, message, content))
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_bytes(self) -> bytes:
        """As it stands at the end of a message."""
        return _LAYOUTS[self._version].pack(
            _MAGIC,
            self._version,
            self.number,
            self.time_ms,
            self.before,
            self.salt,
            self.seen.number,
            self.seen.head,
            self.ledger.number,
            self.ledger.head,
            *self._amounts(),
            *(() if self.arrived is None else (self.arrived, self.commitment)),
            self.signature,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Not checked yet."""
        expected = _VERSION_OF_SIZE[len(data)]
        magic, version, number, time_ms, before, salt, *rest, signature = _LAYOUTS[expected].unpack(
            data
        )
        if (magic, version) != (_MAGIC, expected):
            raise WireError(f"a message without a stamp of version {expected} at its end")
        spent = Spent(*rest[4:6]) if rest[4:] else None
        arrived, commitment = rest[6:] or (None, NO_COMMITMENT)
        seen, ledger = Mark(*rest[:2]), Mark(*rest[2:4])
        return cls(
            *(number, time_ms, before, salt, seen, ledger, spent, arrived, commitment, signature)
        )

    @property
    def _version(self) -> int:
        if self.arrived is not None:
            return _VERSION
        return 1 if self.spent is None else 2

    def _statement(self, sender: str, receiver: str, message: str, content: bytes) -> bytes:
        names = b"".join(len(name).to_bytes(2, "big") + name for name in _encoded(sender, receiver))
        numbers = struct.pack(
            ">QQQQ", self.number, self.time_ms, self.seen.number, self.ledger.number
        )
        heads = self.head(message, content) + self.seen.head + self.ledger.head
        more = [struct.pack(">QQ", *self._amounts())] if self.spent is not None else []
        if self.arrived is not None:
            more.append(struct.pack(">Q", self.arrived))
        return b"\x00".join([_PURPOSES[self._version], names, numbers, heads, *more])

    def _amounts(self) -> tuple[int, ...]:
        return () if self.spent is None else (self.spent.epsilon_steps, self.spent.delta_steps)


def content_digest(salt: bytes, message: Buffer) -> bytes:
    """Of a message, for the chain."""
    hashed = hashlib.sha256(salt)
    hashed.update(message)
    return hashed.digest()


def first_head(sender: str, receiver: str) -> bytes:
    """The head of a chain without a message."""
    # As in version 1: chains go on.
    return hashlib.sha256(b"\x00".join([_PURPOSES[1], *_encoded(sender, receiver)])).digest()


def split(data: bytes) -> tuple[Buffer, Stamp]:
    """A message, not copied, and the stamp at its end."""
    if len(data) <= STAMP_BYTES:
        raise WireError(f"truncated: {len(data)} bytes are no stamped message")
    return memoryview(data)[:-STAMP_BYTES], Stamp.from_bytes(data[-STAMP_BYTES:])


def _encoded(*names: str) -> list[bytes]:
    return [name.encode() for name in names]
