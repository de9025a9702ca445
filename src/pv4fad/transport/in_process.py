"""All parties in one process.  Only encoded bytes pass between them, as over a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pv4fad.errors import Pv4fadError
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

    def deliver(self, messages: Iterable[bytes]) -> None:
        """Deliver the messages, and all that is sent in answer."""
        queue = deque(messages)
        # After a crash a message can be waiting at its sender and at whoever answered it.
        delivered: set[str] = set()
        while queue:
            data = queue.popleft()
            message = decode(data)
            if message_id(message) in delivered:
                continue
            delivered.add(message_id(message))
            if self._observer is not None:
                self._observer(message, len(data))
            receiver = message.address.receiver
            try:
                queue.extend(self._parties[receiver].handle(data))
            except Pv4fadError as error:
                raise type(error)(f"{receiver}: {error}") from error
