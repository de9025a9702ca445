"""The engine: asks at ticks; takes payments up and releases decisions between them.

    n - 4/5  a payment that came since n - 9/5 is taken up; its questions go to workers
    tick n   the queries are sent, as queries are sent at every tick
    n + 1/2  the payment is released, if all answers are there; otherwise after the first tick when
             they are.  A query that was lost is made again.  After the timeout, counted from
             when it came, it is released without them

Payments that miss nothing are decided at once, and so are those that miss only answers of banks
that do not answer anything any more.

A model can be replaced while payments wait (`use`): they are judged again with the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from prometheus_client.metrics_core import Metric as Family

from pv4fad.lead.judging import JudgedPayments
from pv4fad.lead.rows import NewRows
from pv4fad.metrics.catalogue import LIVE_WORKERS_DIED, NEWCOMERS
from pv4fad.protocol.live.messages import CLOCK_BYTES
from pv4fad.protocol.live.network import Asked, place
from pv4fad.protocol.live.plan import most_questions
from pv4fad.randomness import secret_bytes
from pv4fad.service.aside import aside
from pv4fad.service.asking.crew import Crew
from pv4fad.service.asking.held import Held
from pv4fad.service.asking.knowledge import Knowledge
from pv4fad.service.asking.line import Ask, Counts, Line, State
from pv4fad.service.asking.model import LiveModel
from pv4fad.service.asking.newcomers import Newcomers
from pv4fad.service.background import Background
from pv4fad.service.decisions import Decided

TAKEN_UP, RELEASED = 0.2, 0.5
"""Of a tick: replies are there soon after it, and workers have most of it to make queries."""
RELEASED_AFTER = 1  # ticks
_READY_WITHIN_S = 120.0
_log = logging.getLogger("pv4fad.live")

Note = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Keeps questions or answers on disk."""


class Clock(Protocol):
    """When it is; tests bring their own."""

    def now(self) -> float: ...

    async def until(self, time: float) -> None: ...


class LoopClock:
    """That of the event loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now()))


@dataclass(frozen=True)
class Timing:
    """Public: of ticks, and how long a payment may wait."""

    tick_s: float
    timeout_s: float
    covered_s: float = 3.0
    """So long queries without questions are in reserve: until a worker is started again."""

    @property
    def lost_after_s(self) -> float:
        """When the questions of a query without a reply are asked again; it may still come."""
        return max(2 * self.tick_s, self.timeout_s / 4)

    @property
    def covers(self) -> int:
        """In reserve for each bank."""
        return ceil(self.covered_s / self.tick_s)


@dataclass(frozen=True)
class BankStatus:
    """For people who watch."""

    bank: str
    state: State
    why: str
    counts: Counts


class LiveEngine:
    """An `Engine` that asks banks.  Used in one event loop, inside `async with`."""

    def __init__(
        self,
        model: LiveModel,
        timing: Timing,
        *,
        ask: Ask,
        note: Note,
        clock: Clock | None = None,
        background: Background | None = None,
    ) -> None:
        self._background, self._running = background or Background(), AsyncExitStack()
        self._first, self._timing = model, timing
        self._ask, self._note = ask, note
        self._clock = clock or LoopClock()
        self._id = secret_bytes(CLOCK_BYTES)
        self._n_died_before = 0
        """Workers that died while an earlier model was in use."""
        self.newcomers = Newcomers()

    async def __aenter__(self) -> LiveEngine:
        self._asking = await self._begin(self._first)
        ticking = self._background.running("the clock of live queries", self._tick_all())
        await self._running.enter_async_context(ticking)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()
        await self._asking.end()

    async def use(self, model: LiveModel) -> None:
        """From now on; what waits is judged again."""
        new = await self._begin(model)
        try:
            new.knowledge.absorb(self._asking.knowledge)
        except BaseException:
            await new.end()  # or its workers would stay, with more of them at every try
            raise
        before, self._asking = self._asking, new
        self._n_died_before += before.crew.n_died
        await before.end()

    async def _begin(self, model: LiveModel) -> _Asking:
        asking = _Asking(model, self._timing, self._clock.now, self._ask, self._note)
        await asking.begin()
        return asking

    async def decide(self, payments: NewRows) -> AsyncIterator[Decided]:
        left = np.arange(len(payments))
        while len(left):
            asking = self._asking
            judged = await aside(len(payments), JudgedPayments, asking.model.judging, payments)
            held = Held(judged, left, asking.knowledge)
            self.newcomers.meet(held.newcomers(asking.model.judging.directory))
            async for part in asking.decide(held):
                yield part
            left = np.flatnonzero(held.left)

    async def _tick_all(self) -> None:
        start, number = self._clock.now(), 0
        while True:
            due = start + number * self._timing.tick_s
            await self._clock.until(due)
            # A clock may wake a little early.  What was missed is left out: never two at once.
            late = max(0, int((self._clock.now() - due) / self._timing.tick_s))
            if late:
                self._asking.miss(late)
            number += late
            self._asking.send(number, self._id)
            await self._clock.until(start + (number + TAKEN_UP) * self._timing.tick_s)
            self._asking.take_up(number)
            await self._clock.until(start + (number + RELEASED) * self._timing.tick_s)
            self._asking.release(number)
            number += 1

    def status(self) -> list[BankStatus]:
        return self._asking.status()

    def figures(self) -> Iterator[Family]:
        """For whoever watches over the service."""
        yield LIVE_WORKERS_DIED.of(self._n_died_before + self._asking.crew.n_died)
        yield NEWCOMERS.of(len(self.newcomers))

    @property
    def knowledge(self) -> Knowledge:
        return self._asking.knowledge

    @property
    def worker_pids(self) -> list[int]:
        return list(self._asking.crew.pids)


class _Asking:
    """With one model."""

    def __init__(
        self,
        model: LiveModel,
        timing: Timing,
        now: Callable[[], float],
        ask: Ask,
        note: Note,
    ) -> None:
        self.model, self._timing, self._now, self._note = model, timing, now, note
        self.knowledge = Knowledge(model)
        self.crew = Crew(model.setups, model.shares)
        self._lines = [
            Line(
                bank,
                model.tables,
                self.knowledge,
                self.crew,
                ask=ask,
                most_covers=timing.covers,
                lost_after_s=timing.lost_after_s,
                silent_after_s=timing.timeout_s,
                now=now,
                learned=self._learned,
            )
            for bank in model.tables.banks
        ]
        self._held: list[Held] = []
        self._notes: set[asyncio.Future[None]] = set()
        self._stack = AsyncExitStack()
        self._ended = False

    async def begin(self) -> None:
        """When all workers have loaded."""
        self._stack.callback(self.model.shares.close)
        await self._stack.enter_async_context(self.crew.running())
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                await self.crew.ready()
        except BaseException:
            await self._stack.aclose()
            raise
        await asyncio.gather(*(line.begin() for line in self._lines))

    async def end(self) -> None:
        """Nothing is asked any more; who waits is told."""
        self._ended = True
        for held in self._held:
            held.released.put_nowait(None)
        self._held.clear()
        for line in self._lines:
            await line.close()
        await self._stack.aclose()
        await asyncio.gather(*self._notes, return_exceptions=True)

    async def decide(self, held: Held) -> AsyncIterator[Decided]:
        """All payments, unless asking ends before."""
        answering = self._answering()
        at_once = ~held.waiting() | held.missing(answering[self.model.tables.bank[held.account]])
        held.release(at_once)
        if held.left.any():
            held.deadline = self._now() + self._timing.timeout_s
            self._held.append(held)
        while held.left.any() or not held.released.empty():
            if self._ended and held.released.empty():
                return
            released = await held.released.get()
            if released is not None:
                yield await aside(len(released.rows), held.decided, released)

    def send(self, number: int, clock: bytes) -> None:
        """At the tick: a query to every bank."""
        for line in self._lines:
            line.tick(number, clock)

    def miss(self, n_ticks: int) -> None:
        """The clock was late by so many."""
        for line in self._lines:
            line.miss(n_ticks)

    def release(self, number: int) -> None:
        """Some time after a tick: what is answered, or has waited too long."""
        answering = self._answering()
        now = self._now()
        for held in self._held:
            if held.taken_up is None or number < held.taken_up + RELEASED_AFTER:
                continue
            if now >= held.deadline:
                held.release(held.left)
                continue
            of_questions = answering[self.model.tables.bank[held.account]]
            held.release(~held.waiting() | held.missing(of_questions))
        self._held = [held for held in self._held if held.left.any()]

    def take_up(self, number: int) -> None:
        """What is asked at the next tick."""
        for held in self._held:
            if held.taken_up is None:
                held.taken_up = number
        if not self._held:
            return
        account, of_set = self._questions()
        bank = self.model.tables.bank[account]
        put: list[tuple[Line, Asked]] = []
        for index, line in enumerate(self._lines):
            mine = bank == index
            if mine.any() and line.takes_questions:
                most = most_questions(self.model.tables.ring.plain_modulus)
                asked, _ = place(self.model.tables, account[mine], of_set[mine], most)
                put.append((line, asked))
        if put:
            accounts = np.concatenate([asked.account for _, asked in put])
            sets = np.concatenate([asked.set for _, asked in put])
            noted = self._keep(self.knowledge.note(accounts, sets))
            for line, asked in put:
                line.put(asked, noted)

    def _questions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What is open and not under way, each once, the oldest first."""
        held_open = [(held, held.open()) for held in self._held]
        account = np.concatenate([held.account[mine] for held, mine in held_open])
        of_set = np.concatenate([held.set[mine] for held, mine in held_open])
        free = ~self.knowledge.in_flight[account, of_set]
        account, of_set = account[free], of_set[free]
        pairs = account * len(self.model.tables.sets) + of_set
        _, first = np.unique(pairs, return_index=True)
        first.sort()
        return account[first], of_set[first]

    def _answering(self) -> NDArray[np.bool_]:
        return np.array([line.state == "answering" for line in self._lines], np.bool_)

    def _learned(self, asked: Asked, bits: NDArray[np.int8]) -> None:
        self._keep(self.knowledge.note(asked.account, asked.set, bits))

    def _keep(self, note: Mapping[str, Any]) -> asyncio.Future[None]:
        """On disk; decisions that follow from it are written after it."""
        kept: asyncio.Future[None] = asyncio.ensure_future(self._note(note))
        self._notes.add(kept)
        kept.add_done_callback(self._kept)
        return kept

    def _kept(self, kept: asyncio.Future[None]) -> None:
        self._notes.discard(kept)
        if not kept.cancelled() and kept.exception() is not None:
            _log.error("questions or answers could not be written to the journal")

    def status(self) -> list[BankStatus]:
        return [BankStatus(one.bank, one.state, one.why, one.counts) for one in self._lines]
