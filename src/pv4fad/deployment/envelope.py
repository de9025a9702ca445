"""Messages sealed from party to party: a carrier sees sender, receiver and size only.

    key(i → j) = HKDF-SHA256(X25519(secret_i, public_j); federation, i, j)
    envelope   = the encoded message in parts, each AES-256-GCM under key(i → j),
                 bound to its envelope (random id), its position and the number of parts

Only i and j have the key, so opening also proves who sent it.  Keys come from the cards that
people compared, so a relay cannot put itself in between, and parties of another federation cannot
send messages to this one.  Replayed envelopes are harmless: parties answer a message once
(`parties.party`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pv4fad.deployment.card import PartyCard, federation_id
from pv4fad.errors import ProtocolError, StoreError
from pv4fad.protocol.identity import Identity
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import KEY_BYTES, NONCE_BYTES, Label, Sealer

PART_BYTES = 2**20  # small enough that nothing waits long behind a part
MOST_PARTS = 1024
SEAL_BYTES = NONCE_BYTES + 16  # a sealed part is longer by nonce and tag
_ID_BYTES = 16
_PURPOSE = b"pv4fad envelope, version 1"


@dataclass(frozen=True)
class Fragment:
    """A part of a sealed message, as it travels."""

    sender: str
    receiver: str
    federation: str
    envelope: str
    part: int
    n_parts: int
    body: bytes = field(repr=False)
    number: int = 0
    """Its place among all fragments from this sender to this receiver in a session, from 1."""


class Correspondence:
    """Seals one party's messages to the others of its federation, and opens theirs."""

    def __init__(self, identity: Identity, cards: Mapping[str, PartyCard]) -> None:
        self.name = identity.name
        self.federation = federation_id(cards.values())
        self._identity = identity
        self._public = {name: card.public.pairwise_key for name, card in cards.items()}
        self._sealers: dict[tuple[str, str], Sealer] = {}

    def seal(self, receiver: str, message: bytes) -> list[Fragment]:
        """A message in sealed parts of bounded size."""
        envelope = secret_bytes(_ID_BYTES).hex()
        view = memoryview(message)
        n_parts = max(1, -(-len(view) // PART_BYTES))
        if n_parts > MOST_PARTS:
            raise ProtocolError(
                f"a message to {receiver} has {len(view):,} bytes; at most"
                f" {MOST_PARTS * PART_BYTES:,} can be sent"
            )
        sealer = self._sealer(self.name, receiver)
        return [
            Fragment(
                self.name,
                receiver,
                self.federation,
                envelope,
                part,
                n_parts,
                sealer.seal(
                    view[part * PART_BYTES : (part + 1) * PART_BYTES],
                    _label(envelope, part, n_parts),
                ),
            )
            for part in range(n_parts)
        ]

    def open(self, fragment: Fragment) -> bytes:
        """One part of a message to this party."""
        if fragment.federation != self.federation:
            raise ProtocolError(
                f"a message of federation {fragment.federation}, but {self.name} belongs to"
                f" {self.federation}: the parties do not have the same cards"
            )
        if fragment.receiver != self.name:
            raise ProtocolError(f"a message for {fragment.receiver} reached {self.name}")
        label = _label(fragment.envelope, fragment.part, fragment.n_parts)
        try:
            return self._sealer(fragment.sender, self.name).open(fragment.body, label)
        except StoreError:
            raise ProtocolError(
                f"a message that claims to be from {fragment.sender} was not sealed by it for"
                f" {self.name}, or was changed on its way"
            ) from None

    # For handshakes (`live_keys`).

    def seal_note(self, receiver: str, note: bytes, purpose: str) -> bytes:
        """A few bytes for another party, bound to what they are for."""
        return self._sealer(self.name, receiver).seal(note, ("pv4fad note", 1, purpose))

    def open_note(self, sender: str, sealed: bytes, purpose: str) -> bytes:
        """Opens `seal_note` of another party."""
        try:
            return self._sealer(sender, self.name).open(sealed, ("pv4fad note", 1, purpose))
        except StoreError:
            raise ProtocolError(f"a note ({purpose}) that {sender} has not sealed") from None

    def exchange(self, public: X25519PublicKey) -> bytes:
        """This party's long-term secret with a key of another."""
        return X25519PrivateKey.from_private_bytes(self._identity.pairwise_secret).exchange(public)

    def public_key(self, other: str) -> X25519PublicKey:
        """The long-term key of another party."""
        if other not in self._public:
            raise ProtocolError(f"{self.name} has no card of {other}")
        return X25519PublicKey.from_public_bytes(self._public[other])

    def _sealer(self, sender: str, receiver: str) -> Sealer:
        if (sender, receiver) not in self._sealers:
            other = receiver if sender == self.name else sender
            shared = self.exchange(self.public_key(other))
            parts = [_PURPOSE, self.federation.encode(), sender.encode(), receiver.encode()]
            info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
            key = HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(shared)
            self._sealers[sender, receiver] = Sealer(key)
        return self._sealers[sender, receiver]


class Assembly:
    """Collects the parts of envelopes until a message is complete.

    A sender finishes one envelope before it begins the next, and no envelope has more than
    `MOST_PARTS`: so what is kept for a sender is bounded, whatever it sends.
    """

    def __init__(self, correspondence: Correspondence) -> None:
        self._correspondence = correspondence
        self._open: dict[str, _OpenEnvelope] = {}

    def add(self, fragment: Fragment) -> bytes | None:
        """The message, if this was its last part."""
        sender = fragment.sender
        if not 1 <= fragment.n_parts <= MOST_PARTS:
            raise ProtocolError(
                f"a message of {sender} in {fragment.n_parts} parts; at most {MOST_PARTS}"
            )
        begun = self._open.get(sender) or _OpenEnvelope(fragment.envelope, fragment.n_parts)
        if (fragment.envelope, fragment.n_parts) != (begun.envelope, begun.n_parts):
            raise ProtocolError(f"{sender} began a message before it finished the one before")
        if fragment.part != begun.next_part:
            raise ProtocolError(f"part {fragment.part} of a message of {sender} is out of order")
        if len(fragment.body) > PART_BYTES + SEAL_BYTES:
            raise ProtocolError(f"a part of a message of {sender} is longer than parts are")
        begun.whole += self._correspondence.open(fragment)
        begun.next_part += 1
        if begun.next_part < begun.n_parts:
            self._open[sender] = begun
            return None
        self._open.pop(sender, None)
        return bytes(begun.whole)


@dataclass
class _OpenEnvelope:
    """An envelope of which parts are missing."""

    envelope: str
    n_parts: int
    next_part: int = 0
    whole: bytearray = field(default_factory=bytearray, repr=False)


def _label(envelope: str, part: int, n_parts: int) -> Label:
    return ("pv4fad envelope", 1, envelope, part, n_parts)
