"""Keys of a live session: one handshake, then AES-GCM alone for every message.

    S → B   hello      session, e_S      sealed under the long-term key of S and B
    B → S   welcome    session, e_B      sealed in the same way
    both    agree on keys (S → B, B → S)                        (`agreement`)

A message recorded in one session means nothing in another.  A replayed hello leads to keys that
nobody has.

In a session each direction has a key and counts its messages; the count is the nonce, and a count
that is not larger than the one before is refused.  Messages are in chains that are signed at
intervals (`live_chain`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pv4fad.audit.live_marks import MarkLog
from pv4fad.deployment.agreement import NewKey
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.live_chain import LiveChain
from pv4fad.errors import ProtocolError
from pv4fad.randomness import secret_bytes

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
    _chain: LiveChain = field(repr=False)
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
        stamped = self._chain.stamped(self.sent, message)
        sealed = self._ours.encrypt(nonce, stamped, self.session)
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
            stamped = self._theirs.decrypt(_NONCE.pack(0, count), view, self.session)
        except InvalidTag:
            raise ProtocolError("a live message that the other party has not sealed") from None
        message = self._chain.opened(count, stamped)
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

    def __init__(self, own: Correspondence, other: str, log: MarkLog) -> None:
        """`log`: for the marks of the session."""
        self._own, self._other, self._log = own, other, log
        self._key = NewKey()
        self.session = secret_bytes(SESSION_BYTES)

    def hello(self) -> bytes:
        sealed = self._own.seal_note(self._other, self._key.public, self._label("hello"))
        return self.session + sealed

    def finish(self, welcome: bytes) -> LiveSession:
        """With the answer to the hello."""
        if session_of(welcome) != self.session:
            raise ProtocolError("a live welcome of another session")
        sealed = welcome[SESSION_BYTES:]
        theirs = self._own.open_note(self._other, sealed, self._label("welcome"))
        chain = LiveChain(self._own, self._other, self.session, self._log)
        return _begun(chain, self._key, self._own, self._other, theirs, initiator=True)

    def _label(self, what: str) -> str:
        return f"live {what} {self.session.hex()}"


def welcome(
    own: Correspondence, other: str, hello: bytes, log: MarkLog
) -> tuple[bytes, LiveSession]:
    """The answer to a hello, and the session that begins with it."""
    session = session_of(hello)
    if len(session) != SESSION_BYTES:
        raise ProtocolError("a live hello that is too short")
    theirs = own.open_note(other, hello[SESSION_BYTES:], f"live hello {session.hex()}")
    key = NewKey()
    answer = session + own.seal_note(other, key.public, f"live welcome {session.hex()}")
    chain = LiveChain(own, other, session, log)
    return answer, _begun(chain, key, own, other, theirs, initiator=False)


def _begun(
    chain: LiveChain,
    key: NewKey,
    own: Correspondence,
    other: str,
    theirs: bytes,
    *,
    initiator: bool,
) -> LiveSession:
    session = chain.session
    agreed = key.agree(own, other, theirs, purpose=_PURPOSE, session=session, is_first=initiator)
    return LiveSession(session, AESGCM(agreed.ours), AESGCM(agreed.theirs), chain)
