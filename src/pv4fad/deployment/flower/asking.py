"""The relay of a job over a carrier that asks: one request at a time is under way to a station.

Its reply brings what the party sends.  A request to which no reply came is repeated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pv4fad.deployment.exchange import Reply, Request
from pv4fad.deployment.relay import Relay
from pv4fad.deployment.station import EXCHANGE_BYTES
from pv4fad.deployment.status import Journal, Status
from pv4fad.errors import Pv4fadError

LINGER_S = 1.5
WINDOW_BYTES = 2**30  # a round trip takes seconds
_RETRY_S = 2.0
_DISMISSED_WITHIN_S = 10.0


@dataclass(frozen=True)
class Failure:
    """A request to which no reply came."""

    reason: str


class Grid(Protocol):
    """Brings the relay's requests to stations, and their replies back."""

    def send(self, party: str, request: Request) -> None: ...

    def receive(self) -> list[tuple[str, Reply | Failure]]:
        """The replies that have arrived; waits a moment if there are none."""


def relay_job(folder: Path, parties: list[str], status: Status, grid: Grid) -> None:
    """Carry one job through; its progress and its end are in status.json in this folder."""
    journal = Journal(folder, status, parties)
    try:
        relay = Relay(parties, status.job, status.order, journal, window_bytes=WINDOW_BYTES)
        try:
            _carry_through(relay, parties, journal, grid)
        finally:
            _dismiss(parties, grid)
    except Pv4fadError as error:
        journal.finish(str(error))
        raise
    except BaseException as error:
        journal.finish(f"the relay stopped: {type(error).__name__}")
        raise
    journal.finish()


def _carry_through(relay: Relay, parties: list[str], journal: Journal, grid: Grid) -> None:
    under_way: set[str] = set()
    ask_at = dict.fromkeys(parties, 0.0)
    while not relay.is_over:
        journal.beat()
        relay.require_patience()
        now = time.monotonic()
        for party in parties:
            if party in under_way or now < ask_at[party]:
                continue
            request = relay.next(party, EXCHANGE_BYTES, always=relay.wants_to_hear(party))
            if request is not None:
                under_way.add(party)
                grid.send(party, request)
        for party, answer in grid.receive():
            under_way.discard(party)
            if isinstance(answer, Failure):
                relay.lost(party, answer.reason)
                ask_at[party] = time.monotonic() + _RETRY_S
                continue
            for woken in relay.take(party, answer) - under_way:
                # What others are about to send may travel in the same request.
                ask_at[woken] = max(ask_at[woken], time.monotonic() + LINGER_S * bool(under_way))


def _dismiss(parties: list[str], grid: Grid) -> None:
    """Tell all that the session is over, so that they forget its keys; who is away does later."""
    waiting, until = set(parties), time.monotonic() + _DISMISSED_WITHIN_S
    for party in parties:
        grid.send(party, Request(""))
    while waiting and time.monotonic() < until:
        for party, answer in grid.receive():
            if isinstance(answer, Failure) or not answer.session:
                waiting.discard(party)
