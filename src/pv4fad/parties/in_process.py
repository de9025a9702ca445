"""All parties in one process.  Only encoded bytes pass between them, as over a network.

Channels are authenticated: a message that names another sender than the party it comes from is
refused before its receiver sees it.

A party works on one message at a time, in the order in which they were sent to it.  Where worker
processes do the work, parties work at the same time, each in a thread; without any, messages are
handed over one by one in the order in which they were sent.  When a party fails, or the process is
interrupted, nothing is left running: the others give up what they were working on, as if they had
never seen it, or come to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Protocol

from pv4fad.errors import ProtocolError, Pv4fadError
from pv4fad.protocol.wire import Header, message_id, read_header
from pv4fad.workers import WorkerPool

BYTES_AT_ONCE = 2**27
"""Of messages that parties work on at the same time; one larger than this is worked on alone."""


class Endpoint(Protocol):
    """A party as a transport sees it."""

    def handle(self, data: bytes) -> list[bytes]: ...


Observer = Callable[[Header, int], None]
"""Called with the header and the size in bytes of every message before it is handed over."""


class InProcessTransport:
    """Hands messages over until there are no more; `pool`: the workers of all parties."""

    def __init__(
        self, parties: Mapping[str, Endpoint], pool: WorkerPool, observer: Observer | None = None
    ) -> None:
        self._parties = dict(parties)
        self._pool = pool
        self._observer = observer
        # After a crash, its sender and the party that answered it may both send it again.
        self._delivered: set[str] = set()

    def deliver(self, sender: str, messages: Iterable[bytes]) -> None:
        """Deliver a party's messages, and all that is sent in answer."""
        post = _Post()
        self._send(sender, messages, post)
        if not self._pool.n_workers:
            while letter := self._take(post):
                self._send(letter.receiver, self._handle(letter), post)
                post.put_away(letter)
            return
        with self._pool.threads(len(self._parties)) as threads:
            self._deliver_at_once(post, threads)

    def _deliver_at_once(self, post: _Post, threads: Executor) -> None:
        working: dict[Future[list[bytes]], _Letter] = {}
        while True:
            while letter := self._take(post):
                working[threads.submit(self._handle, letter)] = letter
            if not working:
                return
            for future in wait(working, return_when=FIRST_COMPLETED).done:
                letter = working.pop(future)
                self._send(letter.receiver, future.result(), post)
                post.put_away(letter)

    def _send(self, sender: str, messages: Iterable[bytes], post: _Post) -> None:
        for data in messages:
            header = read_header(data)
            if header.address.sender != sender:
                raise ProtocolError(f"{sender} sent {message_id(header)}: not its own name")
            if header.address.receiver not in self._parties:
                raise ProtocolError(f"{message_id(header)}: there is no such receiver")
            if message_id(header) in self._delivered:
                continue
            self._delivered.add(message_id(header))
            post.waiting.append(_Letter(header, data))

    def _take(self, post: _Post) -> _Letter | None:
        letter = post.take()
        if letter is not None and self._observer is not None:
            self._observer(letter.header, len(letter.data))
        return letter

    def _handle(self, letter: _Letter) -> list[bytes]:
        try:
            return self._parties[letter.receiver].handle(letter.data)
        except Pv4fadError as error:
            raise type(error)(f"{letter.receiver}: {error}") from error


@dataclass(frozen=True)
class _Letter:
    header: Header
    data: bytes = field(repr=False)

    @property
    def receiver(self) -> str:
        return self.header.address.receiver


class _Post:
    """Messages in the order in which they were sent, and those that parties are working on."""

    def __init__(self) -> None:
        self.waiting: deque[_Letter] = deque()
        self._under_way: dict[str, _Letter] = {}

    def take(self) -> _Letter | None:
        """The first message whose receiver is free, if there is room for it."""
        for position, letter in enumerate(self.waiting):
            if letter.receiver in self._under_way:
                continue
            n_bytes = sum(len(one.data) for one in self._under_way.values())
            if n_bytes and n_bytes + len(letter.data) > BYTES_AT_ONCE:
                return None  # nor one that is smaller: the first would wait forever
            del self.waiting[position]
            self._under_way[letter.receiver] = letter
            return letter
        return None

    def put_away(self, letter: _Letter) -> None:
        """Its receiver is free again."""
        del self._under_way[letter.receiver]
