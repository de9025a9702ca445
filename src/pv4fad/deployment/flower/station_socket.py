"""The socket of a station: a Unix socket in a folder that only its owner can enter.

Flower's programs come and go, so each call is a connection of its own, with one request and one
reply: each is a length and so many bytes.
"""

from __future__ import annotations

import logging
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pv4fad.deployment.exchange import Reply, Request, from_bytes, to_bytes
from pv4fad.errors import Pv4fadError, StoreError, WireError

_MOST_BYTES = 2**28
_LENGTH = struct.Struct("<Q")
_log = logging.getLogger("pv4fad.station")

Answer = Callable[[Request], Reply]


@contextmanager
def open_socket(answer: Answer) -> Iterator[Path]:
    """Requests to this path are answered until the block ends."""
    # Below the system's folder for temporary files: the path of a socket has at most 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pv4fad-"))
    path = folder / "station"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=_serve, args=(listening, answer), daemon=True).start()
        yield path
    finally:
        listening.close()
        shutil.rmtree(folder, ignore_errors=True)


def call(path: Path, data: bytes) -> bytes:
    """Send a request and return its reply; `StoreError` if no station answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            send(connection, data)
            return receive(connection)
        except OSError as error:
            raise StoreError(f"the station at {path} does not answer: {error.strerror}") from None


def _serve(listening: socket.socket, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # closed
            return
        threading.Thread(target=_answer, args=(connection, answer), daemon=True).start()


def _answer(connection: socket.socket, answer: Answer) -> None:
    with connection:
        try:
            request = from_bytes(receive(connection), Request)
            send(connection, to_bytes(answer(request)))
        except (Pv4fadError, OSError) as error:
            # The caller sees that the connection ends, and sends the request again.
            _log.warning("a request was lost: %s", error)


def send(connection: socket.socket, data: bytes) -> None:
    """Write to a socket."""
    connection.sendall(_LENGTH.pack(len(data)))
    connection.sendall(data)


def receive(connection: socket.socket) -> bytes:
    """Read what was sent; `WireError` if it ends too early or is announced as too much."""
    (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
    if length > _MOST_BYTES:
        raise WireError(f"{length} bytes are more than an exchange has")
    return _receive(connection, int(length))


def _receive(connection: socket.socket, n_bytes: int) -> bytes:
    buffer = bytearray(n_bytes)
    view, done = memoryview(buffer), 0
    while done < n_bytes:
        n = connection.recv_into(view[done:])
        if n == 0:
            raise WireError("the station ended in the middle of an exchange")
        done += n
    return bytes(buffer)
