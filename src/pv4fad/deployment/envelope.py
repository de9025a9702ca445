"""Messages sealed from party to party: a carrier sees sender, receiver and size only.

    each party i   makes a key e_i when a session of the relay begins, and forgets it when it ends
    offer(i)       = e_i, signed by i for this federation and session; the relay shows it to all
    key(i → j)     follows from e_i, e_j and the long-term keys of both           (`agreement`)
    envelope       = the encoded message in parts, each AES-256-GCM under key(i → j),
                     bound to its envelope (random id), its position and the number of parts

Only i and j have the key, so opening also proves who sent it.  It is in memory and nowhere else:
who records what a relay passes on, and steals the keys of cards and stores later, opens nothing.
After a crash another session begins, and what did not arrive is sealed again.  Replayed envelopes
are harmless: parties answer a message once (`parties.party`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pv4fad.deployment.agreement import NewKey
from pv4fad.deployment.correspondence import Correspondence, framed
from pv4fad.errors import ProtocolError, StoreError
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import KEY_BYTES, NONCE_BYTES, Label, Sealer

PART_BYTES = 2**20  # small enough that nothing waits long behind a part
MOST_PARTS = 1024
SEAL_BYTES = NONCE_BYTES + 16  # a sealed part is longer by nonce and tag
_ID_BYTES = 16
_PURPOSE = b"pv4fad envelope, version 2"
_OFFER = b"pv4fad session key, version 1"


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


class Envelopes:
    """One party's in one session: seals its messages to the others, and opens theirs."""

    def __init__(self, own: Correspondence, session: str) -> None:
        self._own, self._session = own, session
        self._key = NewKey()
        self._shown: dict[str, bytes] = {}  # new keys, by party
        self._agreed: dict[str, tuple[Sealer, Sealer]] = {}  # to and from a party
        signature = own.sign(self._statement(own.name, self._key.public))
        self.offer = (self._key.public + signature).hex()

    def take(self, offers: Mapping[str, str]) -> None:
        """The new keys of the others, as the relay shows them."""
        for name, offer in offers.items():
            key = self._checked(name, offer)
            if self._shown.setdefault(name, key) != key:
                raise ProtocolError(f"{name} has signed two session keys for one session")

    def knows(self, other: str) -> bool:
        """Whether a message to this party can be sealed."""
        self._own.require_known(other)
        return other in self._shown

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
        sealer, _ = self._sealers(receiver)
        return [
            Fragment(
                self._own.name,
                receiver,
                self._own.federation,
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
        name, federation = self._own.name, self._own.federation
        if fragment.federation != federation:
            raise ProtocolError(
                f"a message of federation {fragment.federation}, but {name} belongs to"
                f" {federation}: the parties do not have the same cards"
            )
        if fragment.receiver != name:
            raise ProtocolError(f"a message for {fragment.receiver} reached {name}")
        _, sealer = self._sealers(fragment.sender)
        label = _label(fragment.envelope, fragment.part, fragment.n_parts)
        try:
            return sealer.open(fragment.body, label)
        except StoreError:
            raise ProtocolError(
                f"a message that claims to be from {fragment.sender} was not sealed by it for"
                f" {name} in this session, or was changed on its way"
            ) from None

    def _checked(self, name: str, offer: str) -> bytes:
        """The new key in an offer."""
        shown = bytes.fromhex(offer) if _is_hex(offer) else b""
        key, signature = shown[:KEY_BYTES], shown[KEY_BYTES:]
        self._own.require_known(name)
        if len(key) < KEY_BYTES or not self._own.is_signed(
            name, self._statement(name, key), signature
        ):
            raise ProtocolError(f"a session key of {name} that it has not signed for this session")
        if name == self._own.name and key != self._key.public:
            raise ProtocolError(f"the relay shows a session key of {name} that is not its present")
        return key

    def _sealers(self, other: str) -> tuple[Sealer, Sealer]:
        if other not in self._agreed:
            if not self.knows(other):
                raise ProtocolError(f"a message to or from {other} before its session key is known")
            agreed = self._key.agree(
                self._own,
                other,
                self._shown[other],
                purpose=_PURPOSE,
                session=self._session.encode(),
                is_first=self._own.name < other,
            )
            self._agreed[other] = Sealer(agreed.ours), Sealer(agreed.theirs)
        return self._agreed[other]

    def _statement(self, name: str, key: bytes) -> bytes:
        ends = (self._own.federation.encode(), self._session.encode(), name.encode())
        return framed(_OFFER, *ends, key)


class Assembly:
    """Collects the parts of envelopes until a message is complete.

    A sender finishes one envelope before it begins the next, and no envelope has more than
    `MOST_PARTS`: so what is kept for a sender is bounded, whatever it sends.
    """

    def __init__(self, envelopes: Envelopes) -> None:
        self._envelopes = envelopes
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
        begun.whole += self._envelopes.open(fragment)
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


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and not set(text) - set("0123456789abcdef")
