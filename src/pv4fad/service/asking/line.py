"""One bank, as the engine sees it: what is made for it, sent to it and awaited from it.

    questions ─▶ making ─▶ made ─▶ sent at a tick ─▶ bits, or lost
                 cover  ─▶ made ─▶ sent at a tick without questions, or if nothing is made in time

A query is sent only after its questions are on disk.  A reply that is not what was asked for ends
it: this bank is not asked any more until the service is started again.
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
COVERS_AHEAD = 2
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
    left_out: int = 0
    """Ticks without a query: its worker was not there."""


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
        lost_after_s: float,
        silent_after_s: float,
        now: Callable[[], float],
        learned: Callable[[Asked, NDArray[np.int8]], None],
    ) -> None:
        """`learned` is called with new answers."""
        self.bank, self._tables, self._knowledge, self._crew = bank, tables, knowledge, crew
        self._ask, self._lost_after_s, self._silent_after_s = ask, lost_after_s, silent_after_s
        self._now, self._learned = now, learned
        self._heard = now()
        self._excluded = ""
        self._refused = ""
        self._nothing = place(tables, _NONE, _NONE, 0)[0]
        self._making: asyncio.Task[None] | None = None
        self._made: _Made | None = None
        self._covers: deque[_Made] = deque()
        self._covering: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Task[None]] = set()
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
        self._prepare()
        await asyncio.gather(*self._covering)
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
        """Have queries without questions ready."""
        for _ in range(len(self._covers) + len(self._covering), COVERS_AHEAD):
            task = self._start(self._make_cover())
            self._covering.add(task)
            task.add_done_callback(self._covering.discard)

    async def _make_cover(self) -> None:
        with suppress(WorkerError):  # the next tick tries again
            query = await self._crew.query(self.bank, self._nothing.placed)
            self._covers.append(_Made(self._nothing, query))

    # What is sent.

    def tick(self, number: int, clock: bytes) -> None:
        """Send one query."""
        made, self._made = self._made, None
        if made is None and self._covers:
            made = self._covers.popleft()
        self._prepare()
        if made is None or self._excluded:
            self.counts.left_out += 1
            return
        sent = Sent(self.bank, number, made.asked, made.query.rho)
        data = send(self._tables, sent, clock, made.query.ciphertext)
        self.counts.queries += 1
        self.counts.bytes += len(data)
        self.counts.questions += len(made.asked.account)
        self.counts.with_questions += len(made.asked.account) > 0
        self._start(self._exchange(sent, data))

    async def _exchange(self, sent: Sent, data: bytes) -> None:
        try:
            reply = await self._ask(self.bank, data, self._lost_after_s)
        except ProtocolError:
            self._lose(sent)
            return
        self.counts.bytes += len(reply)
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
            self._heard, self._refused = self._now(), ""
            self._mark(sent.asked, in_flight=False)
            if len(bits):
                self._learned(sent.asked, bits)

    def _lose(self, sent: Sent) -> None:
        self.counts.lost += 1
        self._mark(sent.asked, in_flight=False)

    def _refuse(self, reason: str) -> None:
        if reason != self._refused:
            _log.warning("%s refuses live queries: %s", self.bank, reason)
            self._refused = reason

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
