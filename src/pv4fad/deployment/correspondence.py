"""A party's long-term keys, and those of the others on their cards: who is who.

Keys come from the cards that people compared, so a relay cannot put itself in between, and parties
of another federation cannot send messages to this one.  Long-term keys seal no message: they
vouch for keys that are made for one session and forgotten with it (`envelope`, `live_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pv4fad.deployment.card import PartyCard, federation_id
from pv4fad.errors import ProtocolError, StoreError
from pv4fad.protocol.identity import Identity
from pv4fad.store.sealing import KEY_BYTES, Sealer

_PURPOSE = b"pv4fad note, version 1"


class Correspondence:
    """One party among the others of its federation."""

    def __init__(self, identity: Identity, cards: Mapping[str, PartyCard]) -> None:
        self.name = identity.name
        self.federation = federation_id(cards.values())
        self._identity = identity
        self._public = {name: card.public for name, card in cards.items()}

    def seal_note(self, receiver: str, note: bytes, purpose: str) -> bytes:
        """A few bytes for another party, bound to what they are for."""
        return self._sealer(self.name, receiver).seal(note, ("pv4fad note", 1, purpose))

    def open_note(self, sender: str, sealed: bytes, purpose: str) -> bytes:
        """Opens `seal_note` of another party."""
        try:
            return self._sealer(sender, self.name).open(sealed, ("pv4fad note", 1, purpose))
        except StoreError:
            raise ProtocolError(f"a note ({purpose}) that {sender} has not sealed") from None

    def sign(self, statement: bytes) -> bytes:
        """With this party's Ed25519 key."""
        key = Ed25519PrivateKey.from_private_bytes(self._identity.signing_secret)
        return key.sign(statement)

    def is_signed(self, other: str, statement: bytes, signature: bytes) -> bool:
        """Whether the party on whose card this name is has signed it."""
        key = Ed25519PublicKey.from_public_bytes(self.signing_key(other))
        try:
            key.verify(signature, statement)
        except InvalidSignature:
            return False
        return True

    def signing_key(self, other: str) -> bytes:
        """The Ed25519 key on a card."""
        self.require_known(other)
        return self._public[other].signing_key

    def exchange(self, public: X25519PublicKey) -> bytes:
        """This party's long-term secret with a key of another."""
        return X25519PrivateKey.from_private_bytes(self._identity.pairwise_secret).exchange(public)

    def public_key(self, other: str) -> X25519PublicKey:
        """The long-term key of another party."""
        self.require_known(other)
        return X25519PublicKey.from_public_bytes(self._public[other].pairwise_key)

    def require_known(self, other: str) -> None:
        """`ProtocolError` if there is no card of this name."""
        if other not in self._public:
            raise ProtocolError(f"{self.name} has no card of {other}")

    def _sealer(self, sender: str, receiver: str) -> Sealer:
        other = receiver if sender == self.name else sender
        shared = self.exchange(self.public_key(other))
        info = framed(_PURPOSE, self.federation.encode(), sender.encode(), receiver.encode())
        return Sealer(HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(shared))


def framed(*parts: bytes) -> bytes:
    """Parts in one piece, each with its length before it: no two lists of parts give the same."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
