"""Whether the head of a Ray cluster answers: Ray itself would try for minutes, then say little."""

from __future__ import annotations

import os
import socket
import ssl

from pv4fad.errors import ParameterError, WorkerError

CERTIFICATE, KEY, AUTHORITY = "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"
_CONNECT_S = 10.0


def require_answer(address: str) -> None:
    """A TLS handshake with `address`, by the certificates that Ray uses in this process."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    host, context = host.strip("[]"), _context()
    try:
        with (
            socket.create_connection((host, int(port)), _CONNECT_S) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return
    except ssl.SSLError as error:
        raise WorkerError(
            f"workers {address}: no TLS connection: {error.reason or error}"
        ) from None
    except OSError as error:
        raise WorkerError(
            f"workers {address}: nothing answers there ({error}): does the head of the Ray cluster"
            " run?"
        ) from None


def _context() -> ssl.SSLContext:
    for name in (CERTIFICATE, KEY, AUTHORITY):
        if not os.environ.get(name):
            raise ParameterError(f"workers: {name} is not set: see docs/operate/ray.md")
    try:
        context = ssl.create_default_context(cafile=os.environ[AUTHORITY])
        context.load_cert_chain(os.environ[CERTIFICATE], os.environ[KEY])
    except OSError as error:
        raise ParameterError(f"workers: the certificates for Ray: {error}") from None
    return context
