"""A station: the process of one party, and the only place where its data and keys are.

What the relay says is taken at once; one thread works on it in order:

    begin a session → send again what may not have arrived, if asked → do the job, if there is one
    → answer messages, until the session is over; then its keys are gone

A carrier that keeps a connection open hands over what the station says as soon as there is
something to say (`Line`); one that asks gets an answer to each request (`Station.exchange`).

The party and its store belong to this thread.  Whoever else needs them gives it an *errand*, which
it runs between two messages, or at once if there is nothing to do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from pv4fad.audit.notary import Notary
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.envelope import Assembly, Envelopes
from pv4fad.deployment.exchange import WINDOW_BYTES, Job, Outbox, Reply, Request, State
from pv4fad.deployment.station_figures import SessionWork, StationFigures
from pv4fad.errors import ProtocolError, Pv4fadError, UserError, WireError
from pv4fad.protocol.wire import message_id, read_header
from pv4fad.randomness import secret_bytes

HOLD_S = 20.0
SETTLE_S = 1.0  # once there is something to send, more may follow at once
EXCHANGE_BYTES = 64 * 2**20  # of fragments in one answer
_INBOX_BYTES = 2**28  # of one sender's messages that the party has not seen
T = TypeVar("T")
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


class AnswersLive(Protocol):
    """What a party says to live messages, besides what its station does."""

    def answer(self, message: bytes) -> bytes:
        """At once: it must not wait for the station."""


class Station:
    """Takes the relay's requests and tells it what the party sends; see the module's docstring."""

    def __init__(
        self,
        member: Member,
        correspondence: Correspondence,
        notary: Notary,
        *,
        window_bytes: int = WINDOW_BYTES,
        hold_s: float = HOLD_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.id = secret_bytes(8).hex()
        self.name = member.name
        self._member = member
        self._correspondence = correspondence
        self._notary = notary
        self._window_bytes = window_bytes
        self._hold_s, self._settle_s = hold_s, settle_s
        self._changed = threading.Condition()
        self._closed = False
        self._errands = _Errands(self._changed)
        self.live: AnswersLive | None = None
        """None: nobody asks this party live."""
        self.figures = StationFigures()
        """For whoever watches over it."""
        self._line: Line | None = None
        self._session = self._new_session(Request(""))
        self._worker = threading.Thread(target=self._work, name="party", daemon=True)
        self._worker.start()

    def take(self, request: Request) -> None:
        """What the relay says; a new session ends the one before."""
        with self._changed:
            if request.session != self._session.id:
                if request.session:
                    _log.info("session %s begins%s", request.session, " again" * request.resume)
                    self.figures.session()
                self._session = self._new_session(request)
            try:
                self._session.take(request)
            except ProtocolError as error:
                _log.error("%s: %s", type(error).__name__, error)
                self.figures.failed(error)
                self._session.fail(error)
            self._changed.notify_all()

    def new_line(self) -> Line:
        """What the station says through a new connection; those before are over."""
        with self._changed:
            self._line = Line(self)
            self._session.outbox.rewind()
            self._changed.notify_all()
            return self._line

    def exchange(self, request: Request) -> Reply:
        """Take what the relay says and answer once: for a carrier that asks.

        The answer comes when the party has messages to send, has nothing to do, or has worked for
        `hold_s`: so no request waits for long, and few replies are empty.
        """
        self.take(request)
        with self._changed:
            session = self._session
            if request.rewind:
                session.outbox.rewind()
            until = time.monotonic() + self._hold_s
            while session is self._session and session.state == "busy":
                now = time.monotonic()
                if session.outbox.n_unsent or session.lacks_key:
                    until = min(until, now + self._settle_s)
                if now >= until:
                    break
                self._changed.wait(until - now)
            return session.reply(self.name, self.id, EXCHANGE_BYTES)

    @property
    def state(self) -> State:
        return self._session.state

    def waiting(self) -> dict[str, int]:
        """How much waits: to be handled, to be sent, to be done for others."""
        with self._changed:
            session = self._session
            return {
                "inbox": session.n_waiting,
                "outbox": session.outbox.n_unsent,
                "errands": len(self._errands),
            }

    @property
    def correspondence(self) -> Correspondence:
        return self._correspondence

    def errand(self, work: Callable[[], T]) -> Future[T]:
        """Something that needs the party or its store: done by its own thread, when it has time."""
        return self._errands.add(work)

    def close(self) -> None:
        """Stop after the message that is being handled."""
        with self._changed:
            self._closed, self._line = True, None
            self._session = self._new_session(Request("closed"))
            self._changed.notify_all()
        self._worker.join()
        self._errands.close()

    def _new_session(self, request: Request) -> _Session:
        return _Session(request, self._correspondence, self._window_bytes)

    # The worker thread.

    def _work(self) -> None:
        served = ""
        while True:
            with self._changed:
                while self._session.id in ("", served):
                    if self._closed:
                        return
                    self._errands.run_or_wait()
                if self._closed:
                    return
                session = self._session
            served = session.id
            self._work_in(session)
            del session  # and with it its keys

    def _work_in(self, session: _Session) -> None:
        work = SessionWork(self.figures, session.request.job)
        post = _StationPost(
            self._changed,
            session,
            self._notary,
            self._is_current,
            errands=self._errands,
            figures=self.figures,
            work=work,
        )
        try:
            self._serve(session, post, work)
        except SessionEndedError:
            return
        except Exception as error:
            self.figures.failed(error)
            if isinstance(error, Pv4fadError):
                _log.error("%s: %s", type(error).__name__, error)
            else:
                _log.exception("unexpected error")
            if session.request.job and not session.done:
                work.job_over("failed")
            with self._changed:
                session.fail(error)
                self._changed.notify_all()

    def _serve(self, session: _Session, post: _StationPost, work: SessionWork) -> None:
        request = session.request
        self._member.begin_session()
        if request.resume:
            post.send(self._member.unanswered())
        if request.job:
            self._member.do(request.job, post, again=request.resume, order=request.order)
            work.job_over("done")
            with self._changed:
                session.done = True
                self._changed.notify_all()
        while True:
            post.send(self._member.handle(post.receive()))

    def _is_current(self, session: _Session) -> bool:
        return session is self._session


class Line:
    """What a station says through one connection: whenever there is something to say."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._told: Reply | None = None

    def next(self) -> Reply | None:
        """The next thing to tell the relay, with one fragment at most; None: the line is over."""
        station = self._station
        with station._changed:
            while station._line is self and not station._closed:
                reply = station._session.reply(station.name, station.id)
                said = replace(reply, fragments=())
                if reply.fragments or said != self._told:
                    self._told = said
                    return reply
                station._changed.wait()
            return None

    def end(self) -> None:
        """The connection is lost."""
        station = self._station
        with station._changed:
            if station._line is self:
                station._line = None
            station._changed.notify_all()


class _Errands:
    """What others want done by the worker thread."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if self._is_closed:
                future.cancel()
            else:
                self._waiting.append((work, future))
                self._changed.notify_all()
        return future

    def run_or_wait(self) -> None:
        """With `changed` held, once: until it has changed."""
        if not self.run():
            self._changed.wait()

    def run(self) -> bool:
        """With `changed` held, once: what is waiting, without it; whether there was something."""
        found = bool(self._waiting)
        while self._waiting:
            work, future = self._waiting.popleft()
            self._changed.release()
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
            finally:
                self._changed.acquire()
        return found

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            for _, future in self._waiting:
                future.cancel()
            self._waiting.clear()


class _Session:
    """The fragments between relay and station, and the state of the party."""

    def __init__(self, request: Request, correspondence: Correspondence, window_bytes: int) -> None:
        self.id = request.session
        self.request = request
        self.outbox = Outbox(window_bytes)
        self.state: State = "busy" if self.id else "idle"
        self.done = False
        self.progress = ""
        self._error = ""
        self._inbox: deque[tuple[str, bytes]] = deque()
        self._inbox_bytes: dict[str, int] = {}
        self.envelopes = Envelopes(correspondence, self.id)
        self.lacks_key = False
        """Whether the party waits for a session key of another."""
        self._assembly = Assembly(self.envelopes)
        self._received: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}

    def take(self, request: Request) -> None:
        for receiver, count in request.acknowledged.items():
            self.outbox.acknowledge(receiver, count)
        self.envelopes.take(request.offers)
        for fragment in request.fragments:
            sender, received = fragment.sender, self._received.get(fragment.sender, 0)
            if fragment.number <= received:
                continue  # an acknowledgement got lost
            if fragment.number > received + 1:
                raise WireError("the relay left out fragments")
            self._received[sender] = fragment.number
            message = self._assembly.add(fragment)
            if message is not None:
                self._inbox.append((sender, message))
                self._inbox_bytes[sender] = self._inbox_bytes.get(sender, 0) + len(message)
                if self.state == "idle":
                    self.state = "busy"
            self._acknowledge(sender)

    @property
    def n_waiting(self) -> int:
        """Messages that the party has not seen."""
        return len(self._inbox)

    def next_message(self) -> tuple[str, bytes] | None:
        """The oldest message that the party has not seen, with its sender."""
        if not self._inbox:
            return None
        sender, message = self._inbox.popleft()
        self._inbox_bytes[sender] -= len(message)
        self._acknowledge(sender)
        return sender, message

    def _acknowledge(self, sender: str) -> None:
        # Who sends faster than the party works has to wait, and only that sender.
        if self._inbox_bytes.get(sender, 0) <= _INBOX_BYTES:
            self._acknowledged[sender] = self._received[sender]

    def fail(self, error: Exception) -> None:
        self.state = "failed"
        self._error = _for_others(error)
        self.outbox = Outbox()

    def reply(self, party: str, station: str, most_bytes: int = 1) -> Reply:
        fragments = self.outbox.next(most_bytes)
        state: State = "done" if self.done and self.state == "idle" else self.state
        return Reply(
            party,
            station,
            self.id,
            dict(self._acknowledged),
            state,
            self._error,
            self.progress,
            self.outbox.n_unsent,
            self.envelopes.offer,
            fragments,
        )


class _StationPost:
    """The worker's end of a session."""

    def __init__(
        self,
        changed: threading.Condition,
        session: _Session,
        notary: Notary,
        is_current: Callable[[_Session], bool],
        *,
        errands: _Errands,
        figures: StationFigures,
        work: SessionWork,
    ) -> None:
        self._changed = changed
        self._errands = errands
        self._figures, self._work = figures, work
        self._session = session
        self._notary = notary
        self._is_current = is_current
        self._delivered: set[str] = set()

    def send(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            receiver = read_header(message).address.receiver
            stamped = self._notary.stamped(message)
            self._wait_for_key(receiver)
            fragments = self._session.envelopes.seal(receiver, stamped)
            with self._changed:
                self._require_current()
                outbox = self._session.outbox
                for number, fragment in enumerate(fragments, outbox.last(receiver) + 1):
                    outbox.put(receiver, replace(fragment, number=number))
                self._changed.notify_all()
            self._figures.sent(receiver, len(message))

    def receive(self) -> bytes:
        self._work.pause()
        while True:
            sender, data = self._next()
            header = read_header(data)
            if header.address.sender != sender:
                raise ProtocolError(f"{sender} sent {message_id(header)}: not its own name")
            # After a crash, its sender and the party that answered it may both send it again.
            message = bytes(self._notary.opened(data))
            self._figures.received(sender, len(message))
            if message_id(header) not in self._delivered:
                self._delivered.add(message_id(header))
                self._work.go_on(header)
                return message

    def report(self, progress: str) -> None:
        with self._changed:
            self._session.progress = progress
            self._changed.notify_all()

    def _next(self) -> tuple[str, bytes]:
        with self._changed:
            self._errands.run()
            while True:
                self._require_current()
                message = self._session.next_message()
                if message is not None:
                    self._session.state = "busy"
                    self._changed.notify_all()
                    return message
                if self._session.state == "busy":
                    self._session.state = "idle"
                    self._changed.notify_all()
                self._errands.run_or_wait()

    def _wait_for_key(self, receiver: str) -> None:
        """Until the receiver has shown its session key; the others' come with the first request."""
        session = self._session
        with self._changed:
            while not session.envelopes.knows(receiver):
                self._require_current()
                session.lacks_key = True
                self._changed.notify_all()
                self._errands.run_or_wait()
            session.lacks_key = False

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
