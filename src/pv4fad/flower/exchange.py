"""What the relay and a station tell each other: one request, one reply, both repeatable.

    relay → station   session, fragments for the party, how many of its fragments have arrived
    station → relay   fragments of the party, how many of the relay's have arrived, how it is doing

Either side numbers its fragments and keeps them until the other has counted them, so a request or
reply that got lost is simply sent again.  A *session* begins when the relay starts or a station was
restarted; nothing of one session counts in another.  `resume` asks the party to send again all that
may not have arrived.

On the wire: frames (byte strings), first a header in JSON, then the bodies of the fragments.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pv4fad.errors import WireError
from pv4fad.flower.envelope import Fragment

VERSION = 1
EXCHANGE_BYTES = 64 * 2**20  # of fragments in one request or reply
_MAX_FRAMES = 4096
_MAX_FRAME_BYTES = 2**30
_LENGTH = struct.Struct("<Q")

Job = Literal["", "check", "train", "score", "refresh", "resume"]
JOBS: tuple[Job, ...] = ("check", "train", "score", "refresh", "resume")
Exchanged = TypeVar("Exchanged", "Request", "Reply")
State = Literal["idle", "busy", "done", "failed"]


@dataclass(frozen=True)
class Request:
    """From the relay to a station."""

    session: str
    resume: bool
    job: Job
    acknowledged: int
    first: int
    """The number of the first of the fragments."""
    fragments: tuple[Fragment, ...] = field(repr=False, default=())
    order: str = ""
    """The operator's call, the same in all its sessions: what it asked for is done once."""


@dataclass(frozen=True)
class Reply:
    """From a station to the relay."""

    party: str
    station: str
    """Another one after the station was started again."""
    session: str
    acknowledged: int
    first: int
    state: State
    error: str = ""
    """The kind of error only: what a party's error says in full is for that party to read."""
    progress: str = ""
    waiting: int = 0
    """Fragments that did not fit into this reply."""
    fragments: tuple[Fragment, ...] = field(repr=False, default=())


def to_frames(what: Request | Reply) -> list[bytes]:
    """A header, then the bodies."""
    header: dict[str, Any] = {"version": VERSION, "is": type(what).__name__}
    header |= {name: value for name, value in vars(what).items() if name != "fragments"}
    header["fragments"] = [
        [one.sender, one.receiver, one.federation, one.envelope, one.part, one.n_parts]
        for one in what.fragments
    ]
    return [json.dumps(header).encode(), *(one.body for one in what.fragments)]


def from_frames(frames: Sequence[bytes], kind: type[Exchanged]) -> Exchanged:
    """What was sent; `WireError` if it is nothing of this kind."""
    try:
        header = json.loads(frames[0])
        version, name = header.pop("version"), header.pop("is")
        if version != VERSION or name != kind.__name__:
            raise WireError(f"exchange format {version}, this program speaks {VERSION}")
        described = header.pop("fragments")
        fragments = tuple(
            _fragment(entry, body) for entry, body in zip(described, frames[1:], strict=True)
        )
        return kind(**header, fragments=fragments)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise WireError("bytes that are no exchange between relay and station") from None


def _fragment(entry: list[Any], body: bytes) -> Fragment:
    if [type(one) for one in entry] != [str, str, str, str, int, int]:
        raise ValueError("not the entries of a fragment")
    sender, receiver, federation, envelope, part, n_parts = entry
    return Fragment(sender, receiver, federation, envelope, part, n_parts, body)


def send_frames(connection: socket.socket, frames: Sequence[bytes]) -> None:
    """Over a socket."""
    connection.sendall(_LENGTH.pack(len(frames)))
    for frame in frames:
        connection.sendall(_LENGTH.pack(len(frame)))
        connection.sendall(frame)


def receive_frames(connection: socket.socket) -> list[bytes]:
    """From a socket; `WireError` if it ends too early or asks for too much."""
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
