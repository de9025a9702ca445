"""Live messages at the hub: passed from the payment network to a bank and back, never kept.

A message for a party that is not connected, or that does not read fast enough, is dropped, and its
sender is told at once: a late answer is worth nothing.  What waits is bounded for each sender and
receiver, and the senders take turns: a bank that floods the payment network fills only its own
queue.

A message begins with one byte (what it is), the length of a party's name and that name: of the
receiver on its way to the hub, of the sender on its way from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import grpc
import grpc.aio

from pv4fad.deployment.card import PartyCard
from pv4fad.errors import WireError
from pv4fad.metrics.catalogue import HUB_LIVE, HUB_REFUSED
from pv4fad.metrics.figures import Figures
from pv4fad.protocol.roles import BANK, PAYMENT_NETWORK

QUEUE_BYTES = 8 * 2**20  # of one sender to one receiver
QUEUE_MESSAGES = 64
BEGINNING_BYTES = 32


class What(IntEnum):
    """What a live message is."""

    MESSAGE = 0
    DROPPED = 1
    """From the hub: a message to this party was not passed on; with how the message began."""


def live_message(what: What, party: str, body: bytes) -> bytes:
    name = party.encode()
    return b"".join([bytes([what, len(name)]), name, body])


def read_live_message(data: bytes) -> tuple[What, str, bytes]:
    """What it is, the party named in it, and the rest."""
    try:
        end = 2 + data[1]
        name = data[2:end]
        if len(name) != data[1]:
            raise WireError("a live message that ends too early")
        return What(data[0]), name.decode(), data[end:]
    except (ValueError, IndexError):
        raise WireError("bytes that are no live message") from None


@dataclass
class _Line:
    """The Live stream of a party, and what waits for it, by sender."""

    task: asyncio.Task[Any] | None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: dict[str, deque[bytes]] = field(default_factory=dict)

    def put(self, sender: str, data: bytes) -> bool:
        """False if too much waits already."""
        queue = self.waiting.setdefault(sender, deque())
        if len(queue) >= QUEUE_MESSAGES or sum(map(len, queue)) + len(data) > QUEUE_BYTES:
            return False
        queue.append(data)
        self.changed.set()
        return True

    def next(self) -> bytes | None:
        """The senders take turns."""
        for sender in list(self.waiting):
            queue = self.waiting.pop(sender)
            if queue:
                data = queue.popleft()
                self.waiting[sender] = queue
                return data
        return None


class Switch:
    """Connects the live streams of the parties."""

    def __init__(self, cards: Mapping[str, PartyCard], figures: Figures) -> None:
        self._figures = figures
        self._banks = {name for name, card in cards.items() if card.role == BANK}
        self._lines: dict[str, _Line] = {}
        for receiver in (PAYMENT_NETWORK, *self._banks):
            for outcome in ("passed on", "dropped"):
                figures.count(HUB_LIVE, receiver, outcome, by=0)

    async def serve(self, party: str, context: Any) -> None:
        """Pass on what a party sends, and to it what others send, until it leaves."""
        line, before = _Line(asyncio.current_task()), self._lines.get(party)
        self._lines[party] = line
        if before is not None and before.task is not None:
            before.task.cancel()
        await context.send_initial_metadata(())
        writing = asyncio.create_task(self._write(line, context))
        try:
            with suppress(asyncio.CancelledError):  # another connection, or the end of the hub
                while (data := await context.read()) is not grpc.aio.EOF:
                    self._pass_on(party, line, data)
        except WireError as error:
            self._figures.count(HUB_REFUSED)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            writing.cancel()
            if self._lines.get(party) is line:
                del self._lines[party]

    def _pass_on(self, party: str, line: _Line, data: bytes) -> None:
        what, receiver, body = read_live_message(data)
        others = self._banks if party == PAYMENT_NETWORK else {PAYMENT_NETWORK}
        if what != What.MESSAGE or receiver not in others:
            raise WireError(f"{party} may not send live messages to {receiver}")
        to = self._lines.get(receiver)
        passed = to is not None and to.put(party, live_message(What.MESSAGE, party, body))
        self._figures.count(HUB_LIVE, receiver, "passed on" if passed else "dropped")
        if not passed:
            line.put(receiver, live_message(What.DROPPED, receiver, body[:BEGINNING_BYTES]))

    @staticmethod
    async def _write(line: _Line, context: Any) -> None:
        while True:
            await line.changed.wait()
            line.changed.clear()
            while (data := line.next()) is not None:
                await context.write(data)
