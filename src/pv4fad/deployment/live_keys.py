"""Keys of a live session: one handshake, then AES-GCM alone for every message.

    S → B   hello      session, e_S      sealed under the long-term key of S and B
    B → S   welcome    session, e_B      sealed in the same way
    both    keys(S → B, B → S) = HKDF(X25519 of e_S e_B | e_S B | S e_B | S B; federation, names,
                                      session, e_S, e_B)

The long-term keys are those of the cards, so only S and B can come to these keys: each knows that
it talks to the other, also if one long-term key has been stolen and a third party plays the other
side.  e_S and e_B are new for every session and forgotten with it: recorded messages stay closed if
long-term keys are stolen later, and a message recorded in one session means nothing in another.
A replayed hello leads to keys that nobody has.

In a session each direction has a key and counts its messages; the count is the nonce, and a count
that is not larger than the one before is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pv4fad.deployment.envelope import Correspondence
from pv4fad.errors import ProtocolError
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import KEY_BYTES

SESSION_BYTES = 16
MOST_MESSAGES = 2**20  # then a new session: at 20 a second, after half a day
_COUNT = struct.Struct(">Q")
_NONCE = struct.Struct(">IQ")
_PURPOSE = b"pv4fad live session, version 1"


@dataclass
class LiveSession:
    """The messages between two parties from one handshake to the next."""

    session: bytes
    _ours: AESGCM = field(repr=False)
    _theirs: AESGCM = field(repr=False)
    sent: int = 0
    received: int = 0

    @property
    def is_used_up(self) -> bool:
        return self.sent >= MOST_MESSAGES

    def seal(self, message: bytes) -> bytes:
        """A message to the other: session, count, sealed."""
        if self.is_used_up:
            raise ProtocolError("a live session has too many messages: begin another")
        self.sent += 1
        nonce = _NONCE.pack(0, self.sent)
        sealed = self._ours.encrypt(nonce, message, self.session)
        return b"".join([self.session, _COUNT.pack(self.sent), sealed])

    def open(self, data: bytes) -> tuple[int, bytes]:
        """A message of the other, and its count; `ProtocolError` if it is none, or seen before."""
        start = SESSION_BYTES + _COUNT.size
        if len(data) < start or session_of(data) != self.session:
            raise ProtocolError("a live message of another session")
        count = count_of(data)
        if count <= self.received:
            raise ProtocolError("a live message that was seen before")
        try:
            view = memoryview(data)[start:]
            message = self._theirs.decrypt(_NONCE.pack(0, count), view, self.session)
        except InvalidTag:
            raise ProtocolError("a live message that the other party has not sealed") from None
        self.received = count
        return count, message


def session_of(data: bytes) -> bytes:
    """The session that a sealed message names."""
    return data[:SESSION_BYTES]


def count_of(data: bytes) -> int:
    """The count that a sealed message names; -1 if it is too short."""
    if len(data) < SESSION_BYTES + _COUNT.size:
        return -1
    return int(_COUNT.unpack_from(data, SESSION_BYTES)[0])


class Handshake:
    """The side that says hello; a new one for every session."""

    def __init__(self, own: Correspondence, other: str) -> None:
        self._own, self._other = own, other
        self._secret = X25519PrivateKey.from_private_bytes(secret_bytes(KEY_BYTES))
        self.session = secret_bytes(SESSION_BYTES)

    def hello(self) -> bytes:
        public = self._secret.public_key().public_bytes_raw()
        return self.session + self._own.seal_note(self._other, public, self._label("hello"))

    def finish(self, welcome: bytes) -> LiveSession:
        """With the answer to the hello."""
        if session_of(welcome) != self.session:
            raise ProtocolError("a live welcome of another session")
        sealed = welcome[SESSION_BYTES:]
        theirs = self._own.open_note(self._other, sealed, self._label("welcome"))
        shared = _Shared.of(self._own, self._other, self._secret, theirs)
        return shared.keys(self.session, initiator=True)

    def _label(self, what: str) -> str:
        return f"live {what} {self.session.hex()}"


def welcome(own: Correspondence, other: str, hello: bytes) -> tuple[bytes, LiveSession]:
    """The answer to a hello, and the session that begins with it."""
    session = session_of(hello)
    if len(session) != SESSION_BYTES:
        raise ProtocolError("a live hello that is too short")
    theirs = own.open_note(other, hello[SESSION_BYTES:], f"live hello {session.hex()}")
    secret = X25519PrivateKey.from_private_bytes(secret_bytes(KEY_BYTES))
    public = secret.public_key().public_bytes_raw()
    answer = session + own.seal_note(other, public, f"live welcome {session.hex()}")
    return answer, _Shared.of(own, other, secret, theirs).keys(session, initiator=False)


@dataclass(frozen=True)
class _Shared:
    """What one side has computed; the names and keys in the order of initiator and responder."""

    own_name: str
    other_name: str
    federation: str
    own_public: bytes
    other_public: bytes
    both_new: bytes = field(repr=False)
    own_new: bytes = field(repr=False)
    other_new: bytes = field(repr=False)
    both_old: bytes = field(repr=False)

    @classmethod
    def of(cls, own: Correspondence, other: str, secret: X25519PrivateKey, theirs: bytes) -> Self:
        if len(theirs) != KEY_BYTES:
            raise ProtocolError(f"a live key of {other} that is none")
        try:
            new, old = X25519PublicKey.from_public_bytes(theirs), own.public_key(other)
            return cls(
                own.name,
                other,
                own.federation,
                secret.public_key().public_bytes_raw(),
                theirs,
                secret.exchange(new),
                secret.exchange(old),
                own.exchange(new),
                own.exchange(old),
            )
        except ValueError:  # a key of small order
            raise ProtocolError(f"a live key of {other} that is none") from None

    def keys(self, session: bytes, *, initiator: bool) -> LiveSession:
        first, second = (self.own_new, self.other_new)
        names = (self.own_name, self.other_name)
        publics = (self.own_public, self.other_public)
        if not initiator:
            first, second = second, first
            names, publics = names[::-1], publics[::-1]
        parts = [
            _PURPOSE,
            self.federation.encode(),
            *(name.encode() for name in names),
            session,
            *publics,
        ]
        info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        secret = self.both_new + first + second + self.both_old
        keys = HKDF(SHA256(), 2 * KEY_BYTES, salt=None, info=info).derive(secret)
        forth, back = AESGCM(keys[:KEY_BYTES]), AESGCM(keys[KEY_BYTES:])
        return LiveSession(session, forth, back) if initiator else LiveSession(session, back, forth)
