"""What the relay and a station exchange: one request, one reply, both repeatable.

    relay → station   session, fragments for the party, how many of its fragments have arrived
    station → relay   fragments of the party, how many of the relay's have arrived, its state

Each side numbers its fragments and keeps them until the other has acknowledged them, so a request
or reply that got lost is simply sent again.  A *session* begins when the relay starts or a station
was restarted; numbers of one session mean nothing in another.  `resume` asks the party to send
again all messages that may not have arrived.

As bytes: frames (byte strings), first a header in JSON, then the bodies of the fragments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pv4fad.deployment.envelope import Fragment
from pv4fad.errors import WireError

VERSION = 1
EXCHANGE_BYTES = 64 * 2**20  # of fragments in one request or reply

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
    """Names the operator's command, the same in all its sessions: it is carried out once."""


@dataclass(frozen=True)
class Reply:
    """From a station to the relay."""

    party: str
    station: str
    """Identifies the station's process: another one after a restart."""
    session: str
    acknowledged: int
    first: int
    state: State
    error: str = ""
    """The kind of error only: the full text may be about the party's data, and stays there."""
    progress: str = ""
    waiting: int = 0
    """Fragments that did not fit into this reply."""
    fragments: tuple[Fragment, ...] = field(repr=False, default=())


def to_frames(what: Request | Reply) -> list[bytes]:
    """A header, then the bodies."""
    header: dict[str, Any] = {"version": VERSION, "is": type(what).__name__}
    header |= {name: value for name, value in vars(what).items() if name != "fragments"}
    header["fragments"] = [
        [part.sender, part.receiver, part.federation, part.envelope, part.part, part.n_parts]
        for part in what.fragments
    ]
    return [json.dumps(header).encode(), *(part.body for part in what.fragments)]


def from_frames(frames: Sequence[bytes], kind: type[Exchanged]) -> Exchanged:
    """The request or reply in these frames; `WireError` if they hold anything else."""
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
    if [type(value) for value in entry] != [str, str, str, str, int, int]:
        raise ValueError("not the entries of a fragment")
    sender, receiver, federation, envelope, part, n_parts = entry
    return Fragment(sender, receiver, federation, envelope, part, n_parts, body)


def fitting(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """As many of the first fragments as go into one request or reply, at least one."""
    taken: list[Fragment] = []
    n_bytes = 0
    for fragment in fragments:
        n_bytes += len(fragment.body)
        if taken and n_bytes > EXCHANGE_BYTES:
            break
        taken.append(fragment)
    return tuple(taken)
