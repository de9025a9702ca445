"""The socket of a station: a Unix socket in a folder that only its owner can enter.

A carrier's programs may come and go, so each call is a connection of its own, with one request and
one reply.  A call sends the number of frames, then the length and the bytes of each.
"""

from __future__ import annotations

import logging
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pv4fad.deployment.exchange import Reply, Request, from_frames, to_frames
from pv4fad.errors import Pv4fadError, StoreError, WireError

_MAX_FRAMES = 4096
_MAX_FRAME_BYTES = 2**30
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


def call(path: Path, frames: Sequence[bytes]) -> list[bytes]:
    """Send a request and return its reply; `StoreError` if no station answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            send_frames(connection, frames)
            return receive_frames(connection)
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
            request = from_frames(receive_frames(connection), Request)
            send_frames(connection, to_frames(answer(request)))
        except (Pv4fadError, OSError) as error:
            # The caller sees that the connection ends, and sends the request again.
            _log.warning("a request was lost: %s", error)


def send_frames(connection: socket.socket, frames: Sequence[bytes]) -> None:
    """Write frames to a socket."""
    connection.sendall(_LENGTH.pack(len(frames)))
    for frame in frames:
        connection.sendall(_LENGTH.pack(len(frame)))
        connection.sendall(frame)


def receive_frames(connection: socket.socket) -> list[bytes]:
    """Read frames from a socket; `WireError` if it ends too early or announces too much."""
    n_frames = _receive_number(connection, _MAX_FRAMES)
    return [
        _receive(connection, _receive_number(connection, _MAX_FRAME_BYTES)) for _ in range(n_frames)
    ]


def _receive_number(connection: socket.socket, largest: int) -> int:
    (number,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
    if number > largest:
        raise WireError(f"{number} frames or bytes are more than an exchange has")
    return int(number)


def _receive(connection: socket.socket, n_bytes: int) -> bytes:
    buffer = bytearray(n_bytes)
    view, done = memoryview(buffer), 0
    while done < n_bytes:
        n = connection.recv_into(view[done:])
        if n == 0:
            raise WireError("the station ended in the middle of an exchange")
        done += n
    return bytes(buffer)
