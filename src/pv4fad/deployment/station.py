"""A station: the process of one party, and the only place where its data and keys are.

The relay's requests come in through a socket; one thread works on them in order:

    begin a session → send again what may not have arrived, if asked → do the job, if there is one
    → answer messages

A request is answered when the party has messages to send, has nothing to do, or has worked for
`hold_s`: so no request waits for long, and few replies are empty.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from pv4fad.deployment.envelope import Assembly, Correspondence, Fragment
from pv4fad.deployment.exchange import Job, Reply, Request, State, fitting
from pv4fad.errors import ProtocolError, Pv4fadError, UserError, WireError
from pv4fad.protocol.wire import message_id, read_header
from pv4fad.randomness import secret_bytes

HOLD_S = 20.0
SETTLE_S = 1.0  # once there is something to send, more may follow at once
_log = logging.getLogger("pv4fad.station")


class SessionEndedError(Exception):
    """The relay has begun another session: what is under way here is no longer needed."""


class Post(Protocol):
    """How a member reaches the others while it does a job."""

    def send(self, messages: Iterable[bytes]) -> None: ...

    def receive(self) -> bytes:
        """The next message to this party, each only once; waits for it."""

    def report(self, progress: str) -> None:
        """Publish how far the job is, in words that every party may read."""


class Member(Protocol):
    """A party with its own data, as its station runs it."""

    name: str

    def begin_session(self) -> None:
        """Read its data again."""

    def handle(self, data: bytes) -> list[bytes]: ...

    def unanswered(self) -> list[bytes]: ...

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        """Lead a job to its end (the payment network only); `again` if it may have begun."""


class Station:
    """Answers the relay's requests; see the module's docstring."""

    def __init__(
        self,
        member: Member,
        correspondence: Correspondence,
        *,
        hold_s: float = HOLD_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.id = secret_bytes(8).hex()
        self._member = member
        self._correspondence = correspondence
        self._hold_s, self._settle_s = hold_s, settle_s
        self._changed = threading.Condition()
        self._closed = False
        self._session = _Session(Request("", False, "", 0, 1), correspondence)
        self._session.state = "idle"
        self._worker = threading.Thread(target=self._work, name="party", daemon=True)
        self._worker.start()

    def exchange(self, request: Request) -> Reply:
        """Take the relay's messages, return those of the party."""
        with self._changed:
            if request.session != self._session.id:
                _log.info("session %s begins%s", request.session, " again" * request.resume)
                self._session = _Session(request, self._correspondence)
            session = self._session
            try:
                session.take(request)
            except ProtocolError as error:
                session.fail(error)
            self._changed.notify_all()
            self._wait_for_messages(session)
            return session.reply(self._member.name, self.id)

    def close(self) -> None:
        """Stop after the message that is being handled."""
        with self._changed:
            self._closed = True
            self._session = _Session(Request("closed", False, "", 0, 1), self._correspondence)
            self._changed.notify_all()
        self._worker.join()

    def _wait_for_messages(self, session: _Session) -> None:
        until = time.monotonic() + self._hold_s
        while session is self._session and session.state == "busy":
            now = time.monotonic()
            if session.outgoing:
                until = min(until, now + self._settle_s)
            if now >= until:
                return
            self._changed.wait(until - now)

    # The worker thread.

    def _work(self) -> None:
        begun: _Session | None = None
        while True:
            with self._changed:
                while self._session is begun or not self._session.id:
                    if self._closed:
                        return
                    self._changed.wait()
                if self._closed:
                    return
                begun = self._session
            post = _StationPost(self._changed, begun, self._correspondence, self._is_current)
            try:
                self._serve(begun, post)
            except SessionEndedError:
                continue
            except Exception as error:
                if isinstance(error, Pv4fadError):
                    _log.error("%s: %s", type(error).__name__, error)
                else:
                    _log.exception("unexpected error")
                with self._changed:
                    begun.fail(error)
                    self._changed.notify_all()

    def _serve(self, session: _Session, post: _StationPost) -> None:
        request = session.request
        self._member.begin_session()
        if request.resume:
            post.send(self._member.unanswered())
        if request.job:
            self._member.do(request.job, post, again=request.resume, order=request.order)
            with self._changed:
                session.done = True
                self._changed.notify_all()
        while True:
            post.send(self._member.handle(post.receive()))

    def _is_current(self, session: _Session) -> bool:
        return session is self._session


class _Session:
    """The two streams of fragments between relay and station, and the state of the party."""

    def __init__(self, request: Request, correspondence: Correspondence) -> None:
        self.id = request.session
        self.request = request
        self.inbox: deque[tuple[str, bytes]] = deque()
        self.outgoing: deque[Fragment] = deque()
        self.state: State = "busy"
        self.done = False
        self.progress = ""
        self._error = ""
        self._assembly = Assembly(correspondence)
        self._received = 0
        self._first_outgoing = 1

    def take(self, request: Request) -> None:
        while self._first_outgoing <= request.acknowledged and self.outgoing:
            self.outgoing.popleft()
            self._first_outgoing += 1
        for number, fragment in enumerate(request.fragments, start=request.first):
            if number <= self._received:
                continue  # the reply to an earlier request got lost
            if number > self._received + 1:
                raise WireError("the relay left out fragments")
            self._received = number
            message = self._assembly.add(fragment)
            if message is not None:
                self.inbox.append((fragment.sender, message))
                if self.state == "idle":
                    self.state = "busy"

    def fail(self, error: Exception) -> None:
        self.state = "failed"
        self._error = _for_others(error)
        self.outgoing.clear()

    def reply(self, party: str, station: str) -> Reply:
        fragments = fitting(self.outgoing)
        state: State = "done" if self.done and self.state == "idle" else self.state
        return Reply(
            party,
            station,
            self.id,
            self._received,
            self._first_outgoing,
            state,
            self._error,
            self.progress,
            len(self.outgoing) - len(fragments),
            fragments,
        )


class _StationPost:
    """The worker's end of a session."""

    def __init__(
        self,
        changed: threading.Condition,
        session: _Session,
        correspondence: Correspondence,
        is_current: Callable[[_Session], bool],
    ) -> None:
        self._changed = changed
        self._session = session
        self._correspondence = correspondence
        self._is_current = is_current
        self._delivered: set[str] = set()

    def send(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            receiver = read_header(message).address.receiver
            fragments = self._correspondence.seal(receiver, message)
            with self._changed:
                self._require_current()
                self._session.outgoing += fragments
                self._changed.notify_all()

    def receive(self) -> bytes:
        while True:
            sender, data = self._next()
            header = read_header(data)
            if header.address.sender != sender:
                raise ProtocolError(f"{sender} sent {message_id(header)}: not its own name")
            # After a crash, its sender and the party that answered it may both send it again.
            if message_id(header) not in self._delivered:
                self._delivered.add(message_id(header))
                return data

    def report(self, progress: str) -> None:
        with self._changed:
            self._session.progress = progress

    def _next(self) -> tuple[str, bytes]:
        with self._changed:
            while True:
                self._require_current()
                if self._session.inbox:
                    self._session.state = "busy"
                    return self._session.inbox.popleft()
                if self._session.state == "busy":
                    self._session.state = "idle"
                    self._changed.notify_all()
                self._changed.wait()

    def _require_current(self) -> None:
        if not self._is_current(self._session):
            raise SessionEndedError


def _for_others(error: Exception) -> str:
    """What others may read: an error about a party's own data or limits stays with that party."""
    if isinstance(error, UserError):
        return f"cannot continue ({type(error).__name__}); its own log says why"
    if isinstance(error, Pv4fadError):
        return f"{type(error).__name__}: {error}"
    return "stopped by an unexpected error; see its own log"
