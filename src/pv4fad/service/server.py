"""Serving the pages and endpoints; clients that are slow are cut off."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pv4fad.errors import WorkerError
from pv4fad.listening import Listen
from pv4fad.service.background import Background

REQUEST_WITHIN_S = 10.0
"""Until the headers of a request are complete."""
MOST_CONNECTIONS = 2_000
MOST_HEADER_BYTES = 32 * 2**10
_END_WITHIN_S = 10
_SWITCH_S = 0.001  # how long the event loop waits at most when another thread is computing


class _Connection(HttpToolsProtocol):
    """Closes when a request does not come in time or has endless headers; notes a certificate."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._expect_request()
        if transport.get_extra_info("peercert"):
            self.app_state = {**self.app_state, "certificate": True}

    def data_received(self, data: bytes) -> None:
        self._header_bytes += len(data)
        # Counted only while headers are awaited; bodies have limits of their own.
        if self._timer is not None and self._header_bytes > MOST_HEADER_BYTES:
            body_begins = b"\r\n\r\n" in data
            if not body_begins:
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._expect_request()

    def on_headers_complete(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._header_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._timer = self.loop.call_later(REQUEST_WITHIN_S, self.transport.close)


class Server(uvicorn.Server):
    """`serve` runs it; `should_exit` ends it."""

    def __init__(self, app: FastAPI, listen: Listen) -> None:
        self._app = app
        context = listen.context()
        settings: dict[str, Any] = {}
        if context is not None:
            settings["ssl_context_factory"] = lambda *_: context
        self._background: Background = getattr(app.state, "background", None) or Background()
        self._background.end_service = self._end
        super().__init__(
            uvicorn.Config(
                app,
                host=listen.host,
                port=listen.port,
                http=_Connection,
                ws="none",
                access_log=False,  # ids and accounts could be in a URL of the desk
                log_config=None,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=_END_WITHIN_S,
                **settings,
            )
        )

    def _end(self) -> None:
        self.should_exit = True

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until it is told to end; raises if it ends by itself."""
        await super().serve(sockets)
        if not self.started:
            raise WorkerError("the service could not start: its log says why")
        if self._background.ended:
            raise WorkerError(f"{self._background.ended} has ended: start the service again")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal once more at its end, before what is around it has ended.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams to open pages would otherwise keep it from ending.
        if hasattr(self._app.state, "listeners"):
            self._app.state.listeners.end()
        await super().shutdown(sockets)


def run_server(server: Server) -> None:
    """Until SIGINT or SIGTERM, or it is told to end."""
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.freeze()  # what was loaded stays: later collections need not stop everything to look at it
    asyncio.run(server.serve())
