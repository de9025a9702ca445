"""Listening: on loopback, or elsewhere with TLS only; clients that are slow are cut off.

A client certificate is optional in the handshake, so that browsers need none; one that is given
must be signed by the authority of `--client-ca`, or the handshake fails.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pv4fad.errors import ParameterError

REQUEST_WITHIN_S = 10.0
"""Until the headers of a request are complete."""
MOST_CONNECTIONS = 2_000
MOST_HEADER_BYTES = 32 * 2**10
_END_WITHIN_S = 10


@dataclass(frozen=True)
class Listen:
    """Where to listen, and for whom."""

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    """The authority of client certificates."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ParameterError("--certificate and --certificate-key belong together")
        if self.client_ca is not None and self.certificate is None:
            raise ParameterError("--client-ca needs --certificate and --certificate-key")
        if self.certificate is None and not _is_loopback(self.host):
            raise ParameterError(
                f"listening at {self.host} needs TLS: give --certificate and --certificate-key, or"
                " listen at 127.0.0.1"
            )
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None and not path.is_file():
                raise ParameterError(f"{path}: not found")

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"

    def context(self) -> ssl.SSLContext | None:
        """TLS 1.2 or later; None without."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (ssl.SSLError, OSError) as error:
            raise ParameterError(f"{self.certificate}: no usable certificate ({error})") from None
        return context


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
    asyncio.run(server.serve())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
