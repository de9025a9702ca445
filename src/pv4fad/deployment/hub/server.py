"""The hub: who is connected, and what is passed on.

One event loop moves all bytes.  Every connection has a task that reads and one that writes; a
client that does not read holds up only its own writing task, and what waits for it is bounded
(`exchange.Outbox`, `live.Switch`).  A client that sends more than it may is disconnected.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from prometheus_client.metrics_core import Metric as Family

from pv4fad.deployment.exchange import Reply, from_bytes, to_bytes
from pv4fad.deployment.hub import connection
from pv4fad.deployment.hub.desk import Desk
from pv4fad.deployment.hub.switch import Switch
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.errors import Pv4fadError, StoreError, WireError
from pv4fad.metrics.catalogue import (
    HUB_BYTES,
    HUB_CONNECTED,
    HUB_HEARD,
    HUB_REFUSED,
    HUB_WAITING,
)
from pv4fad.metrics.figures import Figures
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

_EMPTY_PER_S = 2000
_LOOK_EVERY_S = 1.0
_STOPS_WITHIN_S = 1.0
_ABSENT = "its station is not connected"
_log = logging.getLogger("pv4fad.hub")


@dataclass
class _Line:
    """The Exchange stream of a party."""

    task: asyncio.Task[Any] | None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    has_spoken: bool = False
    """Before that, it may be a station that was restarted and knows nothing of the session."""


class Hub:
    """`pv4fad party run` at the aggregator."""

    def __init__(self, folder: PartyFolder, figures: Figures) -> None:
        self._folder, self._settings, self._figures = folder, folder.settings(), figures
        cards = folder.complete_cards()
        self._names = {card.certificate.strip(): name for name, card in cards.items()}
        self._desk = Desk(folder.path, list(cards), figures)
        self._lines: dict[str, _Line] = {}
        self._switch = Switch(cards, figures)
        figures.count(HUB_REFUSED, by=0)
        figures.add_source(self._connected)

    def _connected(self) -> list[Family]:
        parties = self._names.values()
        return [HUB_CONNECTED.by({(party,): float(party in self._lines) for party in parties})]

    async def run(self, started: Callable[[], None], ended: asyncio.Event) -> None:
        """Serve until `ended`; `StoreError` if the address cannot be used."""
        server = grpc.aio.server(options=connection.SERVER_OPTIONS)
        calls = {
            connection.EXCHANGE: grpc.stream_stream_rpc_method_handler(self._exchange),
            connection.LIVE: grpc.stream_stream_rpc_method_handler(self._live),
            connection.ONLINE: grpc.unary_unary_rpc_method_handler(self._online),
            connection.START: grpc.unary_unary_rpc_method_handler(self._start),
            connection.STATUS: grpc.unary_unary_rpc_method_handler(self._status),
        }
        handler = grpc.method_handlers_generic_handler(connection.SERVICE, calls)
        server.add_generic_rpc_handlers((handler,))
        host, port = self._settings.listens_at
        listening = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            server.add_secure_port(listening, connection.server_credentials(self._folder))
        except RuntimeError:
            raise StoreError(f"the hub cannot listen at {listening}: is the port in use?") from None
        await server.start()
        self._note_absent()
        started()
        looking = asyncio.create_task(self._look())
        try:
            await ended.wait()
        finally:
            looking.cancel()
            await server.stop(_STOPS_WITHIN_S)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self._desk.require_patience()
                for party in self._names.values():
                    waiting = self._desk.waiting_bytes(party)
                    self._figures.note(HUB_WAITING, party, value=waiting)
                await asyncio.to_thread(self._desk.beat)  # writes a file
            except Exception as error:  # without it, the hub would not look any more
                self._figures.failed(error)
                _log.exception("unexpected error")

    async def _party(self, context: Any, *allowed: str) -> str:
        """Who calls: the party on whose card the certificate is."""
        (shown,) = context.auth_context().get("x509_pem_cert", [b""])
        name = self._names.get(shown.decode().strip())
        if name is None or (allowed and name not in allowed):
            self._figures.count(HUB_REFUSED)
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{name or 'an unknown party'} may not do this at this hub",
            )
            raise AssertionError("abort raises")
        return name

    # Stations.

    async def _exchange(self, _: object, context: Any) -> None:
        party = await self._party(context)
        line = _Line(asyncio.current_task())
        before = self._lines.get(party)
        self._lines[party] = line
        if before is not None and before.task is not None:
            before.task.cancel()  # half of a connection may live on after the other half is gone
            self._desk.lost(party, "it connected anew")
        await context.send_initial_metadata(())
        _log.info("%s is connected", party)
        writing = asyncio.create_task(self._write(party, line, context))
        try:
            with suppress(asyncio.CancelledError):  # another connection, or the end of the hub
                await self._read(party, line, context)
        finally:
            writing.cancel()
            if self._lines.get(party) is line:
                del self._lines[party]
                self._desk.lost(party, _ABSENT)
                _log.info("%s is not connected any more", party)

    async def _read(self, party: str, line: _Line, context: Any) -> None:
        flood = Flood()
        while (data := await context.read()) is not grpc.aio.EOF:
            self._figures.count(HUB_BYTES, "received", party, by=len(data))
            self._figures.note_time(HUB_HEARD, party)
            try:
                reply = from_bytes(data, Reply)
                flood.count(reply)
            except WireError as error:
                self._figures.count(HUB_REFUSED)
                _log.warning("%s is disconnected: %s", party, error)
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            line.has_spoken = True
            self._wake(self._desk.take(party, reply))

    async def _write(self, party: str, line: _Line, context: Any) -> None:
        while True:
            await line.changed.wait()
            line.changed.clear()
            while (request := self._desk.next(party)) is not None:
                data = to_bytes(request)
                self._figures.count(HUB_BYTES, "sent", party, by=len(data))
                await context.write(data)

    def _wake(self, parties: set[str]) -> None:
        for party in parties:
            if party in self._lines and self._lines[party].has_spoken:
                self._lines[party].changed.set()

    def _note_absent(self) -> None:
        for party in self._names.values():
            if party not in self._lines:
                self._desk.lost(party, _ABSENT)

    async def _online(self, _: bytes, context: Any) -> bytes:
        """To a party, about itself."""
        return b"1" if await self._party(context) in self._lines else b""

    # Operators.

    async def _start(self, data: bytes, context: Any) -> bytes:
        may = (AGGREGATOR, *((PAYMENT_NETWORK,) if self._settings.network_starts_jobs else ()))
        party = await self._party(context, *may)
        try:
            number = self._desk.start(data.decode(errors="replace"))
        except Pv4fadError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        _log.info("%s starts job %d (%s)", party, number, data.decode())
        self._note_absent()
        self._wake(set(self._lines))
        return json.dumps(number).encode()

    async def _status(self, _: bytes, context: Any) -> bytes:
        await self._party(context, AGGREGATOR, PAYMENT_NETWORK)
        status = self._desk.status()
        return b"" if status is None else status.model_dump_json().encode()

    # Live messages.

    async def _live(self, _: object, context: Any) -> None:
        await self._switch.serve(await self._party(context), context)


class Flood:
    """Refuses what no honest station sends: thousands of replies a second that bring nothing."""

    def __init__(self) -> None:
        self._since, self._n = time.monotonic(), 0

    def count(self, reply: Reply) -> None:
        now = time.monotonic()
        if now - self._since > 1:
            self._since, self._n = now, 0
        self._n += not reply.fragments
        if self._n > _EMPTY_PER_S:
            raise WireError(f"more than {_EMPTY_PER_S} replies in a second that bring nothing")


def run_hub(
    folder: PartyFolder, ready: Callable[[], None], ended: threading.Event, figures: Figures
) -> None:
    """Run a hub in this thread until `ended`; what it counts goes to `figures`."""
    asyncio.run(_until(ended, lambda over: Hub(folder, figures).run(ready, over)))


async def _until(ended: threading.Event, work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait() -> None:
        ended.wait()
        with suppress(RuntimeError):  # the hub has failed, and the loop is closed
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=wait, name="hub ends", daemon=True).start()
    await work(over)
