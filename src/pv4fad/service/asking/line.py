"""One bank, as the engine sees it: what is made for it, sent to it and awaited from it.

    questions ─▶ making ─▶ made ─▶ sent at a tick ─▶ bits, or lost
                 covers ─▶ made ─▶ sent at a tick without questions, or if nothing is made in time

Covers are made one at a time and kept in reserve, so that the rate stays constant while workers are
busy with questions, get no processor or are started again.  When there is none left, the bank is
sent nothing at this tick, and that is counted.

A query is sent only after its questions are on disk.  If no reply comes for a while, its questions
are asked again at another tick; its own reply still counts until the timeout.  A reply that is not
what was asked for ends it: this bank is not asked any more until the service is started again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ProtocolError, Pv4fadError, WorkerError
from pv4fad.logs import Seldom
from pv4fad.protocol.live.network import (
    Asked,
    LiveRefusalError,
    LiveTables,
    Sent,
    place,
    read_reply,
    send,
)
from pv4fad.protocol.live.steps import Query
from pv4fad.service.asking.crew import Crew
from pv4fad.service.asking.knowledge import Knowledge

Ask = Callable[[str, bytes, float], Awaitable[bytes]]
"""A message to a bank and its answer, within some seconds; a `ProtocolError` if there is none."""
Integers = NDArray[np.int64]
FIRST_COVERS = 2
"""That are there before the first tick."""
_WARN_EVERY_S = 60.0
State = Literal["answering", "not answering", "not asked any more"]
_NONE = np.zeros(0, np.int64)
_log = logging.getLogger("pv4fad.live")


@dataclass(frozen=True)
class _Made:
    asked: Asked = field(repr=False)
    query: Query = field(repr=False)


@dataclass
class Counts:
    """Since the service was started."""

    queries: int = 0
    """Sent, with and without questions."""
    with_questions: int = 0
    questions: int = 0
    bytes: int = 0
    """Of queries and replies."""
    lost: int = 0
    """Queries without a reply."""
    replies: int = 0
    missed: int = 0
    """Ticks without a query: none was ready in time."""


class Line:
    """Used in one event loop."""

    def __init__(
        self,
        bank: str,
        tables: LiveTables,
        knowledge: Knowledge,
        crew: Crew,
        *,
        ask: Ask,
        most_covers: int,
        lost_after_s: float,
        silent_after_s: float,
        now: Callable[[], float],
        learned: Callable[[Asked, NDArray[np.int8]], None],
    ) -> None:
        """`most_covers`: in reserve.  `learned` is called with new answers."""
        self.bank, self._tables, self._knowledge, self._crew = bank, tables, knowledge, crew
        self._ask, self._lost_after_s, self._silent_after_s = ask, lost_after_s, silent_after_s
        self._most_covers, self._now, self._learned = most_covers, now, learned
        self._heard, self._warned = now(), -_WARN_EVERY_S
        self._excluded = ""
        self._refused = self._said = ""
        self._refusals = Seldom(_log, _WARN_EVERY_S)
        self._nothing = place(tables, _NONE, _NONE, 0)[0]
        self._making: asyncio.Task[None] | None = None
        self._made: _Made | None = None
        self._covers: deque[_Made] = deque()
        self._covering: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._awaited: dict[int, tuple[float, Asked]] = {}
        """By tick: when a query was sent, and its questions; not those that came too late."""
        self.counts = Counts()

    @property
    def state(self) -> State:
        if self._excluded:
            return "not asked any more"
        silent = self._now() - self._heard > self._silent_after_s
        return "not answering" if silent else "answering"

    @property
    def why(self) -> str:
        """Why it is not answering, if it says so or misbehaves."""
        return self._excluded or (self._refused if self.state != "answering" else "")

    async def begin(self) -> None:
        """Before the first tick."""
        with suppress(WorkerError):
            for _ in range(FIRST_COVERS):
                await self._make_cover()
        self._heard = self._now()

    # What is made.

    @property
    def takes_questions(self) -> bool:
        """Whether new questions can be put now: one query with questions is made at a time."""
        return self._making is None and self._made is None and not self._excluded

    def put(self, asked: Asked, noted: asyncio.Future[None]) -> None:
        """Questions for the next tick; sent when `noted` says that they are on disk."""
        self._mark(asked, in_flight=True)
        self._making = self._start(self._make(asked, noted))

    async def _make(self, asked: Asked, noted: asyncio.Future[None]) -> None:
        try:
            query = await self._crew.query(self.bank, asked.placed)
            await asyncio.shield(noted)  # others wait for it, too
            self._made = _Made(asked, query)
        except Exception as error:
            _log.warning("%s: questions were not asked: %s", self.bank, _words(error))
            self._mark(asked, in_flight=False)
        finally:
            self._making = None

    def _prepare(self) -> None:
        """Have queries without questions in reserve; one at a time, or questions would wait."""
        if self._covering is None and len(self._covers) < self._most_covers:
            self._covering = self._start(self._fill())

    async def _fill(self) -> None:
        try:
            with suppress(WorkerError):  # the next tick tries again
                while len(self._covers) < self._most_covers:
                    await self._make_cover()
        finally:
            self._covering = None

    async def _make_cover(self) -> None:
        query = await self._crew.query(self.bank, self._nothing.placed)
        self._covers.append(_Made(self._nothing, query))

    # What is sent.

    def tick(self, number: int, clock: bytes) -> None:
        """Send one query."""
        late = self._now() - self._lost_after_s
        for before in [one for one, (since, _) in self._awaited.items() if since <= late]:
            self._await_no_more(before)
        made, self._made = self._made, None
        if made is None and self._covers:
            made = self._covers.popleft()
        self._prepare()
        if self._excluded:
            return
        if made is None:
            self.miss(1)
            return
        sent = Sent(self.bank, number, made.asked, made.query.rho)
        data = send(self._tables, sent, clock, made.query.ciphertext)
        self.counts.queries += 1
        self.counts.bytes += len(data)
        self.counts.questions += len(made.asked.account)
        self.counts.with_questions += len(made.asked.account) > 0
        self._awaited[number] = self._now(), made.asked
        self._start(self._exchange(sent, data))

    def miss(self, n_ticks: int) -> None:
        """Ticks at which nothing can be sent: whoever watches the line sees a gap."""
        self.counts.missed += n_ticks
        if self._now() - self._warned >= _WARN_EVERY_S:
            self._warned = self._now()
            _log.warning(
                "%s was sent nothing at %d ticks so far: too little processor time, or tick-ms is"
                " too short",
                *(self.bank, self.counts.missed),
            )

    async def _exchange(self, sent: Sent, data: bytes) -> None:
        try:
            reply = await self._ask(self.bank, data, self._silent_after_s)
        except ProtocolError:
            self._lose(sent)
            return
        self.counts.bytes += len(reply)
        self.counts.replies += 1
        try:
            bits = read_reply(self._tables, sent, reply)
            self._knowledge.learn(sent.asked.account, sent.asked.set, bits)
        except LiveRefusalError as error:
            self._refuse(str(error))
            self._lose(sent)
        except ProtocolError as error:
            self._exclude(str(error))
            self._lose(sent)
        else:
            self._heard, self._refused, self._said = self._now(), "", ""
            self._await_no_more(sent.tick)
            if len(bits):
                self._learned(sent.asked, bits)

    def _lose(self, sent: Sent) -> None:
        self.counts.lost += 1
        self._await_no_more(sent.tick)

    def _await_no_more(self, tick: int) -> None:
        """What is still unknown of its questions can be asked again, under another mask."""
        if tick in self._awaited:
            _, asked = self._awaited.pop(tick)
            self._mark(asked, in_flight=False)

    def _refuse(self, reason: str) -> None:
        self._refused = reason
        text = "%s refuses live queries: %s"
        if reason != self._said and self._refusals.say(text, self.bank, reason):
            self._said = reason

    def _exclude(self, reason: str) -> None:
        if not self._excluded:
            self._excluded = f"misbehaves: {reason}"
            _log.error(
                "%s is not asked any more until the service is started again: %s", self.bank, reason
            )

    def _mark(self, asked: Asked, *, in_flight: bool) -> None:
        self._knowledge.in_flight[asked.account, asked.set] = in_flight

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def close(self) -> None:
        """Nothing more is sent, and no reply awaited."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Pv4fadError) else type(error).__name__
