"""How two parties agree on keys that only they can have, now and later.

    (I → J, J → I) = HKDF-SHA256(X25519 of e_I e_J | e_I J | I e_J | I J;
                                 purpose, federation, names, session, e_I, e_J)

I and J are the long-term keys of the cards: only their owners can come to these keys, also if one
of the long-term keys has been stolen and a third party plays the other side.  e_I and e_J are new
for every session and forgotten with it: what was recorded stays closed if long-term keys are stolen
later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pv4fad.deployment.correspondence import Correspondence, framed
from pv4fad.errors import ProtocolError
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import KEY_BYTES


@dataclass(frozen=True)
class AgreedKeys:
    """One for each direction."""

    ours: bytes = field(repr=False)
    theirs: bytes = field(repr=False)


class NewKey:
    """A key for one session; its secret is nowhere but here."""

    def __init__(self) -> None:
        self._secret = X25519PrivateKey.from_private_bytes(secret_bytes(KEY_BYTES))
        self.public = self._secret.public_key().public_bytes_raw()

    def agree(
        self,
        own: Correspondence,
        other: str,
        theirs: bytes,
        *,
        purpose: bytes,
        session: bytes,
        is_first: bool,
    ) -> AgreedKeys:
        """`theirs`: the new key of the other; `is_first`: this party is I, the other J."""
        if len(theirs) != KEY_BYTES:
            raise ProtocolError(f"a session key of {other} that is none")
        try:
            new, old = X25519PublicKey.from_public_bytes(theirs), own.public_key(other)
            both_new, mixed = self._secret.exchange(new), [self._secret.exchange(old)]
            mixed.append(own.exchange(new))
        except ValueError:  # a key of small order
            raise ProtocolError(f"a session key of {other} that is none") from None
        names, publics = [own.name.encode(), other.encode()], [self.public, theirs]
        if not is_first:
            mixed, names, publics = mixed[::-1], names[::-1], publics[::-1]
        info = framed(purpose, own.federation.encode(), *names, session, *publics)
        secret = b"".join([both_new, *mixed, own.exchange(old)])
        keys = HKDF(SHA256(), 2 * KEY_BYTES, salt=None, info=info).derive(secret)
        forth, back = keys[:KEY_BYTES], keys[KEY_BYTES:]
        return AgreedKeys(forth, back) if is_first else AgreedKeys(back, forth)
