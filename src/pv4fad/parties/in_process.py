"""All parties in one process.  Only encoded bytes pass between them, as over a network.

Channels are authenticated: a message that names another sender than the party it comes from is
refused before its receiver sees it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pv4fad.errors import ProtocolError, Pv4fadError
from pv4fad.protocol.wire import Header, message_id, read_header


class Endpoint(Protocol):
    """A party as a transport sees it."""

    def handle(self, data: bytes) -> list[bytes]: ...


Observer = Callable[[Header, int], None]
"""Called with the header and the size in bytes of every message before it is handed over."""


class InProcessTransport:
    """Hands messages over in the order they were sent, until there are no more."""

    def __init__(self, parties: Mapping[str, Endpoint], observer: Observer | None = None) -> None:
        self._parties = dict(parties)
        self._observer = observer
        # After a crash, its sender and the party that answered it may both send it again.
        self._delivered: set[str] = set()

    def deliver(self, sender: str, messages: Iterable[bytes]) -> None:
        """Deliver a party's messages, and all that is sent in answer."""
        queue = deque((sender, data) for data in messages)
        while queue:
            sender, data = queue.popleft()
            header = read_header(data)
            receiver = header.address.receiver
            if header.address.sender != sender:
                raise ProtocolError(f"{sender} sent {message_id(header)}: not its own name")
            if receiver not in self._parties:
                raise ProtocolError(f"{message_id(header)}: there is no such receiver")
            if message_id(header) in self._delivered:
                continue
            self._delivered.add(message_id(header))
            if self._observer is not None:
                self._observer(header, len(data))
            try:
                replies = self._parties[receiver].handle(data)
            except Pv4fadError as error:
                raise type(error)(f"{receiver}: {error}") from error
            queue.extend((receiver, reply) for reply in replies)
