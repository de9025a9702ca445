"""All parties in one process.  Only encoded bytes pass between them, as over a network.

Channels are authenticated: a message that names another sender than the party it comes from is
refused before its receiver sees it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pv4fad.errors import ProtocolError, Pv4fadError
from pv4fad.protocol.wire import Message, decode, message_id


class Endpoint(Protocol):
    """A party as a transport sees it."""

    def handle(self, data: bytes) -> list[bytes]: ...


Observer = Callable[[Message, int], None]
"""Told of every message before it is handed over, with its size in bytes."""


class InProcessTransport:
    """Hands messages over in the order they were sent, until there are no more."""

    def __init__(self, parties: Mapping[str, Endpoint], observer: Observer | None = None) -> None:
        self._parties = dict(parties)
        self._observer = observer
        # After a crash a message can be waiting at its sender and at whoever answered it.
        self._delivered: set[str] = set()

    def deliver(self, sender: str, messages: Iterable[bytes]) -> None:
        """Deliver a party's messages, and all that is sent in answer."""
        queue = deque((sender, data) for data in messages)
        while queue:
            sender, data = queue.popleft()
            message = decode(data)
            address = message.address
            if address.sender != sender:
                raise ProtocolError(f"{sender} sent {message_id(message)}: not its own name")
            if address.receiver not in self._parties:
                raise ProtocolError(f"{message_id(message)}: there is no such receiver")
            if message_id(message) in self._delivered:
                continue
            self._delivered.add(message_id(message))
            if self._observer is not None:
                self._observer(message, len(data))
            del message  # a hundred megabytes, which the receiver decodes for itself
            try:
                replies = self._parties[address.receiver].handle(data)
            except Pv4fadError as error:
                raise type(error)(f"{address.receiver}: {error}") from error
            queue.extend((address.receiver, reply) for reply in replies)
