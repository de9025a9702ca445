"""The door of a station: a Unix socket in a folder that only its owner can enter.

Flower's apps are started anew for every message, so they come and go; each call is a connection of
its own with one request and one reply.
"""

from __future__ import annotations

import logging
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pv4fad.errors import Pv4fadError, StoreError
from pv4fad.flower.exchange import Request, from_frames, receive_frames, send_frames, to_frames
from pv4fad.flower.station import Station

_log = logging.getLogger("pv4fad.station")


@contextmanager
def open_door(station: Station) -> Iterator[Path]:
    """The station answers at this path, until the block ends."""
    # Below the system's folder for temporary files: the path of a socket has at most 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pv4fad-"))
    path = folder / "station"
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(str(path))
        door.listen()
        threading.Thread(target=_serve, args=(door, station), name="door", daemon=True).start()
        yield path
    finally:
        door.close()
        shutil.rmtree(folder, ignore_errors=True)


def call(path: Path, frames: Sequence[bytes]) -> list[bytes]:
    """One request and its reply; `StoreError` if nobody is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            send_frames(connection, frames)
            return receive_frames(connection)
        except OSError as error:
            raise StoreError(f"the station at {path} does not answer: {error.strerror}") from None


def _serve(door: socket.socket, station: Station) -> None:
    while True:
        try:
            connection, _ = door.accept()
        except OSError:  # closed
            return
        threading.Thread(target=_answer, args=(connection, station), daemon=True).start()


def _answer(connection: socket.socket, station: Station) -> None:
    with connection:
        try:
            request = from_frames(receive_frames(connection), Request)
            send_frames(connection, to_frames(station.exchange(request)))
        except (Pv4fadError, OSError) as error:
            # The caller sees that the connection ends, and asks again.
            _log.warning("a request was lost: %s", error)
