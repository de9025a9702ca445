"""Small messages that must not wait: the payment network asks a bank, and the bank answers.

    payment network   ask(bank, question) ──▶ hub ──▶ bank   answer(question)
                      answer              ◀── hub ◀──

Each has a connection of its own for this.  Messages are sealed from party to party (`live_keys`);
the hub sees who asks whom, how much and when.  Nothing is kept or repeated: if an answer does not
come, the one who asked is told so, and decides.

    async with LiveQuestions(folder, correspondence) as live:
        answer = await live.ask("bank01", question, timeout_s=0.3)

    with answering(folder, correspondence, answer): ...
"""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

import grpc
import grpc.aio

from pv4fad.audit.live_marks import MarkLog
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.hub import connection
from pv4fad.deployment.hub.switch import What, live_message, read_live_message
from pv4fad.deployment.live_chain import UnmarkedError
from pv4fad.deployment.live_keys import (
    Handshake,
    LiveSession,
    count_of,
    session_of,
    welcome,
)
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.errors import ProtocolError, Pv4fadError, StoreError
from pv4fad.logs import Seldom
from pv4fad.protocol.roles import PAYMENT_NETWORK

_COUNT = struct.Struct(">Q")  # before an answer: of the question that it answers
_TRY_AGAIN_S = 0.5
_HANDSHAKE_S = 2.0
_MOST_WAITING = 64  # questions that a bank has not answered
_SAY_EVERY_S = 1.0  # whoever sends nonsense must not fill the disk of the other
_log = logging.getLogger("pv4fad.live")

Answer = Callable[[bytes], bytes]


def _seldom() -> Seldom:
    return Seldom(_log, _SAY_EVERY_S)


class NoAnswerError(ProtocolError):
    """A bank did not answer in time, or cannot be reached."""


class Kind(IntEnum):
    """The first byte of what the parties tell each other."""

    HELLO = 0
    WELCOME = 1
    SEALED = 2
    UNKNOWN_SESSION = 3


@dataclass
class _Bank:
    """What the payment network knows of one bank."""

    session: LiveSession | None = None
    handshake: Handshake | None = None
    begun: float = 0.0
    """When the handshake began."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """A handshake has ended, well or not."""
    waiting: dict[tuple[bytes, int], asyncio.Future[bytes]] = field(default_factory=dict)
    """By session and count of the question."""
    warnings: Seldom = field(default_factory=_seldom)

    def give_up(self, error: NoAnswerError) -> None:
        """Nothing that is under way will be answered."""
        self.session = self.handshake = None
        self.settled.set()
        for waiting in self.waiting.values():
            _fail(waiting, error)


def _fail(waiting: asyncio.Future[bytes] | None, error: NoAnswerError) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(error)


class LiveQuestions:
    """The payment network's end; used in one event loop."""

    def __init__(self, folder: PartyFolder, correspondence: Correspondence) -> None:
        self._folder, self._own = folder, correspondence
        self._log = MarkLog.of_folder(folder.path)
        self._banks: dict[str, _Bank] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(1024)

    async def __aenter__(self) -> Self:
        self._talking = asyncio.create_task(_keep_talking(self._folder, self._over))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._talking.cancel()
        with suppress(asyncio.CancelledError):
            await self._talking
        self._log.close()

    async def ask(self, bank: str, question: bytes, timeout_s: float) -> bytes:
        """A bank's answer; `NoAnswerError` if there is none in this time."""
        known = self._banks.setdefault(bank, _Bank())
        place: tuple[bytes, int] | None = None
        try:
            async with asyncio.timeout(timeout_s):
                session = await self._session(bank, known)
                sealed = self._sealed(session, question)
                place = session_of(sealed), count_of(sealed)
                answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                known.waiting[place] = answer
                self._send(bank, Kind.SEALED, sealed)
                return await answer
        except TimeoutError:
            raise NoAnswerError(f"{bank} has not answered in {timeout_s:g} s") from None
        finally:
            if place is not None:
                del known.waiting[place]

    async def _session(self, bank: str, known: _Bank) -> LiveSession:
        while known.session is None or known.session.is_used_up:
            now = time.monotonic()
            if known.handshake is None or now - known.begun > _HANDSHAKE_S:
                known.handshake, known.begun = Handshake(self._own, bank, self._log), now
                known.settled.clear()
                self._send(bank, Kind.HELLO, known.handshake.hello())
            await known.settled.wait()
            if known.session is None:
                raise NoAnswerError(f"{bank} is not connected")
        return known.session

    @staticmethod
    def _sealed(session: LiveSession, question: bytes) -> bytes:
        try:
            return session.seal(question)
        except StoreError as error:
            raise NoAnswerError(str(error)) from None

    def _send(self, bank: str, kind: Kind, body: bytes) -> None:
        try:
            self._outgoing.put_nowait(live_message(What.MESSAGE, bank, bytes([kind]) + body))
        except asyncio.QueueFull:
            raise NoAnswerError("the hub does not take messages fast enough") from None

    # The connection.

    async def _over(self, call: Any) -> None:
        try:
            await _until_one_ends(self._read(call), self._write(call))
        finally:
            self._forget()

    async def _read(self, call: Any) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            self._take(data)

    async def _write(self, call: Any) -> None:
        with suppress(asyncio.InvalidStateError):  # the call has ended
            while True:
                await call.write(await self._outgoing.get())

    def _forget(self) -> None:
        while not self._outgoing.empty():
            self._outgoing.get_nowait()
        for bank, known in self._banks.items():
            known.give_up(NoAnswerError(f"{bank}: the connection with the hub was lost"))

    def _take(self, data: bytes) -> None:
        what, bank, body = read_live_message(data)
        known = self._banks.get(bank)
        if known is None or not body:
            return
        kind, rest = body[0], body[1:]
        try:
            if what == What.DROPPED:
                self._take_back(bank, known, kind, rest)
            elif kind == Kind.WELCOME and known.handshake is not None:
                known.session, known.handshake = known.handshake.finish(rest), None
                known.settled.set()
            elif kind == Kind.SEALED and known.session is not None:
                self._take_answer(known.session, known, rest)
            elif known.session is not None and (kind, rest) == (
                Kind.UNKNOWN_SESSION,
                known.session.session,
            ):
                known.give_up(NoAnswerError(f"{bank} was restarted, or asks for a new session"))
        except UnmarkedError as error:
            known.warnings.say("%s: %s", bank, error)
            known.give_up(NoAnswerError(f"{bank}: its answers have no marks"))
        except (ProtocolError, StoreError) as error:
            known.warnings.say("%s: %s", bank, error)

    @staticmethod
    def _take_back(bank: str, known: _Bank, kind: int, rest: bytes) -> None:
        """The hub did not pass this on."""
        error = NoAnswerError(f"{bank} is not connected, or too slow")
        if kind == Kind.SEALED:
            _fail(known.waiting.get((session_of(rest), count_of(rest))), error)
        else:
            known.give_up(error)

    @staticmethod
    def _take_answer(session: LiveSession, known: _Bank, rest: bytes) -> None:
        _, opened = session.open(rest)
        if len(opened) < _COUNT.size:
            raise ProtocolError("a live answer that does not say to which question")
        (count,) = _COUNT.unpack_from(opened)
        waiting = known.waiting.get((session.session, count))
        if waiting is not None and not waiting.done():
            waiting.set_result(opened[_COUNT.size :])


class _LiveAnswers:
    """A bank's end: one question after the other, in a thread."""

    def __init__(
        self,
        own: Correspondence,
        answer: Answer,
        log: MarkLog,
        failed: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._own, self._answer, self._log, self._failed = own, answer, log, failed
        self._problem = ""
        self._warnings, self._errors = _seldom(), _seldom()
        self._sessions: dict[bytes, LiveSession] = {}
        self._turn = threading.Lock()
        """A question of the connection before may still be at work."""

    def take(self, data: bytes) -> bytes | None:
        """What to say to a message."""
        with self._turn:
            return self._take(data)

    def _take(self, data: bytes) -> bytes | None:
        try:
            _, sender, body = read_live_message(data)
            said = self._take_from(sender, body)
        except ProtocolError as error:
            self._warnings.say("a live message was refused: %s", error)
            return None
        except Exception as error:
            self._note(error)
            return None
        self._problem = ""
        return None if said is None else live_message(What.MESSAGE, sender, said)

    def _note(self, error: Exception) -> None:
        """Count it; in the log when it begins or changes, not at every question."""
        self._failed(error)
        on_purpose = isinstance(error, Pv4fadError)
        problem = str(error) if on_purpose else type(error).__name__
        unexpected = None if on_purpose else error
        if problem != self._problem and self._errors.say(
            "a live question was not answered: %s", problem, level=logging.ERROR, raised=unexpected
        ):
            self._problem = problem

    def _take_from(self, sender: str, body: bytes) -> bytes | None:
        if sender != PAYMENT_NETWORK or not body:
            raise ProtocolError(f"{sender} may not ask")
        kind, rest = body[0], body[1:]
        if kind == Kind.HELLO:
            answer, session = welcome(self._own, sender, rest, self._log)
            # Questions of the session before may still be on their way.
            self._sessions = dict([*self._sessions.items(), (session.session, session)][-2:])
            return bytes([Kind.WELCOME]) + answer
        if kind != Kind.SEALED:
            return None
        known = self._sessions.get(session_of(rest))
        if known is None:
            return bytes([Kind.UNKNOWN_SESSION]) + session_of(rest)
        try:
            count, question = known.open(rest)
        except UnmarkedError as error:
            # So after a connection that was lost for long: a new session has its marks at once.
            self._warnings.say("a live session was ended: %s", error)
            del self._sessions[known.session]
            return bytes([Kind.UNKNOWN_SESSION]) + known.session
        return bytes([Kind.SEALED]) + known.seal(_COUNT.pack(count) + self._answer(question))


@contextmanager
def answering(
    folder: PartyFolder,
    correspondence: Correspondence,
    answer: Answer,
    failed: Callable[[Exception], None] = lambda _: None,
) -> Iterator[None]:
    """A bank answers live questions until the block ends.

    `answer` is called in a thread, with one question at a time, and `failed` if it fails.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="live", daemon=True)
    thread.start()
    log = MarkLog.of_folder(folder.path)
    answers = _LiveAnswers(correspondence, answer, log, failed)
    task = asyncio.run_coroutine_threadsafe(_answer_all(folder, answers), loop)
    try:
        yield
    finally:
        task.cancel()
        asyncio.run_coroutine_threadsafe(_ended(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        log.close()


async def _ended() -> None:
    """Wait until all other tasks of this loop have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _answer_all(folder: PartyFolder, answers: _LiveAnswers) -> None:
    async def over(call: Any) -> None:
        waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        some = asyncio.Event()
        await _until_one_ends(_read(call, waiting, some), _work(call, waiting, some, answers))

    await _keep_talking(folder, over)


async def _read(call: Any, waiting: deque[bytes], some: asyncio.Event) -> None:
    """Never waits for the work: it would not see that the call has ended."""
    while (data := await call.read()) is not grpc.aio.EOF:
        waiting.append(data)  # if the bank is slow, the oldest falls out: nobody awaits it any more
        some.set()


async def _work(
    call: Any, waiting: deque[bytes], some: asyncio.Event, answers: _LiveAnswers
) -> None:
    with suppress(asyncio.InvalidStateError):  # the call has ended
        while True:
            await some.wait()
            data = waiting.popleft()
            if not waiting:
                some.clear()
            said = await asyncio.to_thread(answers.take, data)
            if said is not None:
                await call.write(said)


# The connection, of either end.


async def _keep_talking(folder: PartyFolder, talk: Callable[[Any], Awaitable[None]]) -> None:
    """Over one call after the other, whatever ended the one before."""
    unexpected = _seldom()
    while True:
        try:
            async with connection.dial_async(folder) as channel:
                await talk(channel.stream_stream(connection.path(connection.LIVE))())
        except (grpc.aio.AioRpcError, Pv4fadError) as error:
            _log.warning("not connected: %s", connection.why(error))
        except Exception as error:
            unexpected.say("not connected: an unexpected error", level=logging.ERROR, raised=error)
        await asyncio.sleep(_TRY_AGAIN_S)


async def _until_one_ends(*halves: Coroutine[Any, Any, None]) -> None:
    """Run them until one ends, and raise why: a call of which one half is gone is of no use."""
    tasks = [asyncio.create_task(half) for half in halves]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        if not task.cancelled():
            task.result()
