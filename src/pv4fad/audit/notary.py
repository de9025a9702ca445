"""Stamps what a party sends, checks the stamps of what it gets, and keeps both in its log.

    notary.stamped(message) → message ‖ stamp         the same bytes if it is sent again
    notary.opened(message ‖ stamp) → message          raises before the party sees it

What can be seen at once is refused at once: a stamp that its sender has not signed, a second
message under a number that was used, a message that comes after a later one, and a store, the
sender's or this party's own, that was put back to an earlier state.  Numbers may be missing, since
a party may give up what it has begun: a stamp says which of the other's messages have arrived, and
who compares logs finds those that did not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from pv4fad.audit.log import Chain, Direction, Entry, ledger_mark
from pv4fad.audit.stamp import (
    N_ARRIVED,
    NO_COMMITMENT,
    SALT_BYTES,
    Stamp,
    content_digest,
    split,
)
from pv4fad.errors import ProtocolError, StoreError
from pv4fad.privacy.ledger import spent_in_all
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.wire import Header, message_id, read_field, read_header
from pv4fad.protocol.wire_fields import Buffer
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Records
from pv4fad.store.store import Store, Transaction

_PUT_BACK = "its store was put back to an earlier state, or it tells different things"
_log = logging.getLogger("pv4fad.audit")


class Notary:
    """Of one party."""

    def __init__(self, store: Store, identity: Identity, keys: Mapping[str, bytes]) -> None:
        """`keys`: the signing keys of the parties, as they are known from elsewhere."""
        self._store = store
        self._identity = identity
        self._name = identity.name
        self._keys = keys

    def stamped(self, message: bytes) -> bytes:
        """A message as it is sent."""
        header = read_header(message)
        receiver, name = header.address.receiver, message_id(header)
        with self._store.transaction() as tx:
            chain = self._chain(tx, "sent", receiver)
            number = chain.number_of(name)
            if number is not None:
                return message + _repeated(chain.entry(number), message, name)
            received = self._chain(tx, "received", receiver)
            last, salt = chain.last(), secret_bytes(SALT_BYTES)
            content = content_digest(salt, message)
            stamp = Stamp(
                last.number + 1,
                time.time_ns() // 1_000_000,
                last.head,
                salt,
                seen=received.last(),
                ledger=ledger_mark(tx),
                spent=spent_in_all(tx),
                arrived=_arrived(chain, received),
                commitment=_commitment(header, message),
            ).signed(self._identity.signing_secret, self._name, receiver, name, content)
            chain.append(name, content, stamp)
        return message + stamp.to_bytes()

    def opened(self, data: bytes) -> Buffer:
        """A message without its stamp, once that is checked and kept."""
        message, stamp = split(data)
        header = read_header(message)
        sender, receiver = header.address.sender, header.address.receiver
        name = message_id(header)
        if receiver != self._name:
            raise ProtocolError(f"a message for {receiver} reached {self._name}")
        content = content_digest(stamp.salt, message)
        with self._store.transaction() as tx:
            chain = self._chain(tx, "received", sender)
            if not stamp.is_signed_by(self._keys[sender], sender, receiver, name, content):
                raise ProtocolError(f"{name}: {sender} has not signed this")
            if stamp.commitment != _commitment(header, message):
                raise ProtocolError(f"{name}: {sender} has signed another commitment")
            kept = chain.entry(stamp.number)
            if kept is not None and kept.content == content:
                return message  # sent again
            _check_place(chain, stamp)
            _check_ledger(chain, stamp)
            _check_seen(self._chain(tx, "sent", sender), stamp)
            chain.append(name, content, stamp)
        return message

    def _chain(self, tx: Transaction, direction: Direction, other: str) -> Chain:
        if other not in self._keys:
            raise ProtocolError(f"{self._name} does not know {other}")
        return Chain(Records.of_party(tx), direction, self._name, other, self._keys[other])


def known_keys(identities: Iterable[PublicIdentity]) -> dict[str, bytes]:
    """The signing key of each party."""
    return {identity.name: identity.signing_key for identity in identities}


def _arrived(sent: Chain, received: Chain) -> int:
    """Which messages have arrived (`Stamp.arrived`), from what the message before this one said."""
    kept, last = sent.entry(sent.last().number), received.last().number
    known = bits = 0
    if kept is not None:
        before = Stamp.from_bytes(kept.stamp)
        known = before.seen.number
        bits = min(known, 1) if before.arrived is None else before.arrived
    for number in range(max(known, last - N_ARRIVED) + 1, last + 1):
        bits = bits << 1 | (received.entry(number) is not None)
    return bits & (1 << N_ARRIVED) - 1


def _commitment(header: Header, message: Buffer) -> bytes:
    """What a proposal commits to."""
    if header.kind != RunProposal.kind:
        return NO_COMMITMENT
    parameters = Proposal(read_field(message, "parameters")).parsed()
    return bytes.fromhex(parameters.commitment) or NO_COMMITMENT


def _repeated(kept: Entry | None, message: bytes, name: str) -> bytes:
    """The stamp that a message had when it was sent before."""
    if kept is None:
        raise StoreError(f"{name} is missing from the log of messages")
    if content_digest(Stamp.from_bytes(kept.stamp).salt, message) != kept.content:
        raise ProtocolError(f"{name} was sent before with other content")
    return kept.stamp


def _check_place(chain: Chain, stamp: Stamp) -> None:
    sender, number, last = chain.other, stamp.number, chain.last()
    if chain.entry(number) is not None:
        raise ProtocolError(
            f"{sender} has signed a second message {number} to {chain.own}: {_PUT_BACK}"
        )
    if number <= last.number:
        raise ProtocolError(f"message {number} of {sender} comes after its message {last.number}")
    if number == last.number + 1 and stamp.before != last.head:
        raise ProtocolError(
            f"message {number} of {sender} does not follow its message {last.number}: {_PUT_BACK}"
        )
    if number > last.number + 1:
        _log.warning(
            "%s: messages %d to %d did not arrive; it may have given up what they were for",
            sender,
            last.number + 1,
            number - 1,
        )


def _check_ledger(chain: Chain, stamp: Stamp) -> None:
    kept = chain.entry(chain.last().number)
    if kept is None:
        return
    last, shown = Stamp.from_bytes(kept.stamp), stamp.ledger
    if last.spent is not None and (stamp.spent is None or not stamp.spent.covers(last.spent)):
        raise ProtocolError(f"{chain.other} shows that it has spent less than before: {_PUT_BACK}")
    before = last.ledger
    if shown.number < before.number or (shown.number == before.number and shown != before):
        raise ProtocolError(
            f"{chain.other} shows a ledger with {shown.number} entries after another with"
            f" {before.number}: {_PUT_BACK}"
        )


def _check_seen(sent: Chain, stamp: Stamp) -> None:
    """What the other party has seen of this one's messages."""
    seen = stamp.seen
    if seen.number and stamp.arrived is not None and not stamp.arrived & 1:
        raise ProtocolError(
            f"{sent.other} has signed that it has seen message {seen.number} of {sent.own}, and"
            " that it has not arrived"
        )
    if seen.number > sent.last().number:
        raise StoreError(
            f"{sent.other} has seen {seen.number} messages of {sent.own}, whose store knows of"
            f" {sent.last().number}: this store was put back to an earlier state"
        )
    if seen.head != sent.head_at(seen.number):
        raise StoreError(
            f"{sent.other} has seen another message {seen.number} of {sent.own} than the one in its"
            " store: this store was put back to an earlier state, or the other one lies"
        )
