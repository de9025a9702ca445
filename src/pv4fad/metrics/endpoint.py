"""Where a station's figures are read, and probes ask how it is doing.

    GET /metrics    for Prometheus; elsewhere than on loopback with a token only
    GET /healthz    200: the process runs
    GET /readyz     200: it can do its work; 503 and why not

Whoever is slow is cut off, and only some are served at a time: a reader cannot keep the station
from its work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, socket
from ssl import SSLSocket
from typing import Any

from pv4fad.errors import StoreError
from pv4fad.listening import Listen
from pv4fad.metrics.figures import Figures

_WITHIN_S = 10.0
_AT_A_TIME = 8
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_log = logging.getLogger("pv4fad.metrics")

May = Callable[[str], bool]
"""Whether somebody with this token may read."""


class _Asked(BaseHTTPRequestHandler):
    """One request on one connection."""

    server: _Endpoint
    timeout = _WITHIN_S
    server_version, sys_version = "pv4fad", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            self._answer(200, b"alive\n")
        elif path == "/readyz":
            problem = self.server.figures.problem()
            self._answer(503 if problem else 200, f"{problem or 'ready'}\n".encode())
        else:
            self._answer(404, b"not found\n")

    def _metrics(self) -> None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        may = self.server.may
        if may is not None and (scheme.lower() != "bearer" or not may(token.strip())):
            self._answer(401, b"send a token for metrics: Authorization: Bearer TOKEN\n")
        else:
            self._answer(200, self.server.figures.text())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", _TEXT)
        self.send_header("content-length", str(len(body)))
        self.send_header("cache-control", "no-store")
        if status == 401:
            self.send_header("www-authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape is no event."""


class _Endpoint(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, listen: Listen, figures: Figures, may: May | None) -> None:
        self.figures, self.may = figures, may
        self.address_family = AF_INET6 if ":" in listen.host else AF_INET
        self._free = threading.BoundedSemaphore(_AT_A_TIME)
        context = listen.context()
        try:
            super().__init__((listen.host, listen.port), _Asked)
        except OSError as error:
            raise StoreError(
                f"metrics cannot be shown at {listen.address}: {error.strerror}"
            ) from None
        if context is not None:
            # The handshake is part of the first read, in the thread of the connection.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: socket | SSLSocket | Any, client_address: Any) -> None:
        """A client that went away, or figures that could not be read."""
        _log.debug("a request for figures failed", exc_info=True)


@contextmanager
def endpoint(listen: Listen, figures: Figures, may: May | None) -> Iterator[None]:
    """Answers in threads of its own until the block ends; `may` is None where nobody is asked."""
    server = _Endpoint(listen, figures, may)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
