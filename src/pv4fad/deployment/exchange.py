"""What the relay and a station tell each other, whoever carries it.

    relay → station   session, job, fragments for the party, how many of its own have arrived,
                      the session keys of the others
    station → relay   fragments of the party, how many it has received, its state, its session key

Fragments are numbered on their way from one party to another, and their sender keeps them until
their receiver has acknowledged them (`Outbox`).  So anything that got lost is simply sent again,
what arrives twice is noticed, and no more than a window of bytes is on a way at a time.
A *session* begins when the relay starts a job, or a station was restarted; numbers and keys of one
session mean nothing in another.  A request without a session says that it is over.  `resume` asks
the party to send again all messages that may not have arrived.

As bytes: a header in JSON with its length before it, then the bodies of the fragments.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pv4fad.deployment.envelope import PART_BYTES, SEAL_BYTES, Fragment
from pv4fad.errors import ProtocolError, WireError

VERSION = 3
WINDOW_BYTES = 8 * 2**20  # on one way, not acknowledged
MOST_HEADER_BYTES = 2**18
_LENGTH = struct.Struct("<I")

Job = Literal["", "check", "train", "score", "match", "refresh", "resume"]
JOBS: tuple[Job, ...] = ("check", "train", "score", "match", "refresh", "resume")
Exchanged = TypeVar("Exchanged", "Request", "Reply")
State = Literal["idle", "busy", "done", "failed"]
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Request:
    """From the relay to a station."""

    session: str
    resume: bool = False
    job: Job = ""
    order: str = ""
    """Names the operator's command, the same in all its sessions: it is carried out once."""
    rewind: bool = False
    """What the station sent and nobody acknowledged may be lost: it sends it again."""
    acknowledged: Counts = field(default_factory=dict)
    """How many of the station's fragments each receiver has."""
    offers: Mapping[str, str] = field(default_factory=dict)
    """New keys of the parties, signed (`envelope.Envelopes`); those that are known are left out."""
    fragments: tuple[Fragment, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class Reply:
    """From a station to the relay."""

    party: str
    station: str
    """Identifies the station's process: another one after a restart."""
    session: str
    acknowledged: Counts
    """How many fragments of each sender it has."""
    state: State
    error: str = ""
    """The kind of error only: the full text may be about the party's data, and stays there."""
    progress: str = ""
    waiting: int = 0
    """Fragments that it has not sent yet."""
    offer: str = ""
    """Its own new key, signed."""
    fragments: tuple[Fragment, ...] = field(repr=False, default=())


def to_bytes(what: Request | Reply) -> bytes:
    header: dict[str, Any] = {"version": VERSION, "is": type(what).__name__}
    header |= {name: value for name, value in vars(what).items() if name != "fragments"}
    header["fragments"] = [
        [
            *(part.sender, part.receiver, part.federation, part.envelope),
            *(part.part, part.n_parts, part.number, len(part.body)),
        ]
        for part in what.fragments
    ]
    head = json.dumps(header).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(part.body for part in what.fragments)])


def from_bytes(data: bytes, kind: type[Exchanged]) -> Exchanged:
    """The request or reply in these bytes; `WireError` if they hold anything else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        if length > MOST_HEADER_BYTES:
            raise WireError("an exchange between relay and station with a header that is too long")
        view = memoryview(data)
        header = json.loads(bytes(view[_LENGTH.size : _LENGTH.size + length]))
        version, name = header.pop("version"), header.pop("is")
        if version != VERSION or name != kind.__name__:
            raise WireError(f"exchange format {version}, this program speaks {VERSION}")
        fragments = _fragments(header.pop("fragments"), view[_LENGTH.size + length :])
        found = kind(**header, fragments=fragments)
    except (ValueError, TypeError, KeyError, AttributeError, struct.error, RecursionError):
        raise WireError("bytes that are no exchange between relay and station") from None
    _require_types(found)
    return found


def _fragments(entries: list[list[Any]], bodies: memoryview) -> tuple[Fragment, ...]:
    fragments, start = [], 0
    for entry in entries:
        if [type(value) for value in entry] != [str] * 4 + [int] * 4:
            raise ValueError("not the entries of a fragment")
        sender, receiver, federation, envelope, part, n_parts, number, size = entry
        if not 0 <= size <= PART_BYTES + SEAL_BYTES:
            raise ValueError("not the size of a fragment")
        body = bytes(bodies[start : start + size])
        fragments.append(
            Fragment(sender, receiver, federation, envelope, part, n_parts, body, number)
        )
        start += size
    if start != len(bodies):
        raise ValueError("not the sizes of these bodies")
    return tuple(fragments)


def _require_types(found: Request | Reply) -> None:
    texts = ("session", "order", "job", "party", "station", "state", "error", "progress", "offer")
    entries = vars(found)
    good = all(isinstance(entries.get(name, ""), str) for name in texts)
    good = good and isinstance(entries.get("waiting", 0), int)
    counts, offers = entries["acknowledged"], entries.get("offers", {})
    if not good or not isinstance(counts, dict) or not isinstance(offers, dict):
        raise WireError("bytes that are no exchange between relay and station")
    if any(type(count) is not int for count in counts.values()) or any(
        type(offer) is not str for offer in offers.values()
    ):
        raise WireError("bytes that are no exchange between relay and station")


@dataclass
class _Way:
    """Fragments from one party to another that were not acknowledged."""

    kept: deque[Fragment] = field(default_factory=deque)
    n_bytes: int = 0
    last: int = 0
    """The number of the latest fragment that was put here."""
    n_sent: int = 0
    """How many of those kept are under way."""
    sent_bytes: int = 0


class Outbox:
    """Fragments to be sent through one connection, by way; each until it is acknowledged.

    `window_bytes`: of fragments of one way that are under way at a time.
    """

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self._ways: dict[str, _Way] = {}

    def put(self, way: str, fragment: Fragment) -> bool:
        """Keep the next fragment of a way; False if it was put here before."""
        kept = self._ways.setdefault(way, _Way())
        if fragment.number <= kept.last:
            return False
        if fragment.number != kept.last + 1:
            raise ProtocolError(
                f"fragments from {fragment.sender} to {fragment.receiver} are missing"
            )
        kept.last = fragment.number
        kept.kept.append(fragment)
        kept.n_bytes += len(fragment.body)
        return True

    def last(self, way: str) -> int:
        """The number of the latest fragment of a way."""
        return self._ways[way].last if way in self._ways else 0

    def n_bytes(self, way: str) -> int:
        """Of the fragments of a way that were not acknowledged."""
        return self._ways[way].n_bytes if way in self._ways else 0

    def acknowledge(self, way: str, count: int) -> bool:
        """Forget the first `count` fragments of a way; False if nothing is new."""
        kept = self._ways.get(way)
        if kept is None or not kept.kept or count < kept.kept[0].number:
            return False
        if count > kept.last:
            raise ProtocolError(f"fragment {count} of {way} was acknowledged and never sent")
        while kept.kept and kept.kept[0].number <= count:
            size = len(kept.kept.popleft().body)
            kept.n_bytes -= size
            if kept.n_sent:
                kept.n_sent -= 1
                kept.sent_bytes -= size
        return True

    def rewind(self) -> None:
        """Nothing is known to have arrived but what was acknowledged: send everything again."""
        for kept in self._ways.values():
            kept.n_sent = kept.sent_bytes = 0

    def next(self, most_bytes: int = 1) -> tuple[Fragment, ...]:
        """Fragments to be sent now, in order on each way, the ways in turn; at least one if any."""
        taken: list[Fragment] = []
        n_bytes, open_ways = 0, deque(self._ways)
        while open_ways and (not taken or n_bytes < most_bytes):
            way = open_ways.popleft()
            fragment = self._sent_next(self._ways[way])
            if fragment is None:
                continue
            taken.append(fragment)
            n_bytes += len(fragment.body)
            open_ways.append(way)
            self._ways[way] = self._ways.pop(way)  # the others come first next time
        return tuple(taken)

    def _sent_next(self, kept: _Way) -> Fragment | None:
        if kept.n_sent == len(kept.kept) or kept.sent_bytes >= self._window_bytes:
            return None
        fragment = kept.kept[kept.n_sent]
        kept.n_sent += 1
        kept.sent_bytes += len(fragment.body)
        return fragment

    @property
    def n_unsent(self) -> int:
        return sum(len(kept.kept) - kept.n_sent for kept in self._ways.values())

    @property
    def is_empty(self) -> bool:
        """Whether everything was acknowledged."""
        return not any(kept.kept for kept in self._ways.values())
