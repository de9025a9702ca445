"""What all parties have in common: a name, a store, worker processes, and how a message is handled.

    handle(bytes) → bytes to send

A message is decoded, checked against the party's state, answered, and the new state and the answer
are stored in one transaction before anything is sent.  A repeated message gets the stored answer.
A message that does not fit raises and changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from pv4fad.errors import ProtocolError
from pv4fad.protocol.checks import expect
from pv4fad.protocol.order import accepted_by
from pv4fad.protocol.roles import role_of
from pv4fad.protocol.wire import Message, decode, digest, encode, message_id
from pv4fad.protocol.wire_fields import Buffer
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool


class Party(ABC):
    """A participant: everything it keeps is in its store.

    It takes the kinds of messages that `protocol.order` says, from the roles that it says.  That a
    message comes from whom it says it comes from is for the transport to make sure.
    """

    def __init__(self, name: str, store: Store, pool: WorkerPool) -> None:
        self.name = name
        self.store = store
        self.pool = pool
        self._accepts = accepted_by(role_of(name))

    def handle(self, data: Buffer) -> list[bytes]:
        """Answer a message; the answer is stored before it is returned."""
        message = decode(data)
        if message.address.receiver != self.name:
            raise ProtocolError(f"a message for {message.address.receiver} reached {self.name}")
        expect(
            role_of(message.address.sender) in self._accepts.get(type(message), ()),
            message,
            f"{self.name} takes no such message from this sender",
        )
        identity, request = message_id(message), digest(data)
        stored = self.store.reply_to(identity, request)
        if stored is not None:
            return stored
        with self.store.transaction() as tx:
            replies = [encode(reply) for reply in self._answer(message, tx)]
            tx.record_reply(identity, request, replies)
        return replies

    def unanswered(self) -> list[bytes]:
        """Everything sent and not yet known to have arrived: what to send again after a crash."""
        return self.store.unacknowledged()

    @abstractmethod
    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        """The replies to a new message, with all state changes in `tx`."""


@dataclass(frozen=True)
class LastMessage(Record):
    """The latest message that a party was sent in an epoch; one for each sender."""

    message_id: str


def acknowledge_previous(run: Records, message: Message, *, keep_this: bool = False) -> None:
    """A new message of a sender proves that the answer to its last has arrived: drop its bytes.

    `keep_this`: the answer to the new one goes to others as well, and is kept until the run, match
    or batch is over.
    """
    sender = message.address.sender
    previous = run.find(LastMessage, sender)
    if previous is not None:
        run.tx.acknowledge(previous.message_id)
        run.delete_at(LastMessage, sender)
    if not keep_this:
        run.put(LastMessage(message_id(message)), sender)
