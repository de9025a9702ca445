"""The way of a payment: checked, looked up, judged, written, answered.

    submit ─▶ waiting ─▶ check ─▶ known? ─▶ rows ─▶ engine ─▶ to write ─▶ journal ─▶ answer

What has come in while a batch was being checked is the next batch, and what has been decided while
the journal was writing is its next commit: nothing waits for a clock, and many payments share one
commit.  The number of payments between `submit` and the answer is bounded; above it a request is
refused at once.

A payment id gets one decision.  The same payment again gets the same bytes, also while the first
is still under way; another payment with a known id is refused.  Killed anywhere, a payment that
was not answered is in the journal or is not, and the client asks again.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from pv4fad.errors import DataError, OrderError, Pv4fadError
from pv4fad.service.alerts import Alert, AlertBook
from pv4fad.service.decisions import Decided, decisions_of
from pv4fad.service.intake import Raw, check, digest, plain
from pv4fad.service.journal import Entry
from pv4fad.service.parts import Parts

MOST_PAYMENTS = 20_000
"""Under way at a time, over all requests."""
MOST_TOGETHER = 2_000
"""In one batch."""

T = TypeVar("T")
_log = logging.getLogger("pv4fad.service")


class OverloadedError(Exception):
    """There is no room for more payments now."""


class FailedError(Exception):
    """The service could not decide; the client may try again."""


@dataclass(eq=False)
class _Payment:
    """One payment under way."""

    raw: Raw = field(repr=False)
    answer: asyncio.Future[str] = field(repr=False)
    came: float
    id: str = ""
    digest: str = ""
    content: dict[str, Any] = field(default_factory=dict, repr=False)


class Pipeline:
    """`run` does the work; `submit` hands payments in.  All of it on one event loop."""

    def __init__(
        self,
        parts: Parts,
        *,
        most_payments: int = MOST_PAYMENTS,
        told: Callable[[Alert], None] = lambda _: None,
    ) -> None:
        """`told` is called with every new alert, once it is on disk."""
        self.watch = parts.watch
        self.book = AlertBook.of_journal(parts.schema, parts.journal)
        self._schema, self._journal = parts.schema, parts.journal
        self._rows, self._engine = parts.rows, parts.engine
        self._most, self._told = most_payments, told
        self._waiting: asyncio.Queue[_Payment] = asyncio.Queue()
        self._to_write: asyncio.Queue[tuple[Entry, _Payment]] = asyncio.Queue()
        self._under_way: dict[str, _Payment] = {}
        self._n_under_way = 0
        self._deciding: set[asyncio.Task[None]] = set()
        self._worker = ThreadPoolExecutor(1, "payments")
        self.is_running = False

    @property
    def n_under_way(self) -> int:
        return self._n_under_way

    @property
    def n_decided(self) -> int:
        """Since the journal was begun."""
        return self._journal.n_decisions

    async def submit(self, raws: Sequence[Raw]) -> list[str | Pv4fadError | FailedError]:
        """The answer to each payment, in order, or what is wrong with it."""
        if not self.is_running or self._n_under_way + len(raws) > self._most:
            self.watch.refused(len(raws))
            raise OverloadedError
        loop, now = asyncio.get_running_loop(), time.perf_counter()
        payments = [_Payment(raw, loop.create_future(), now) for raw in raws]
        self._n_under_way += len(payments)
        for payment in payments:
            payment.answer.add_done_callback(partial(self._forget, payment))
            self._waiting.put_nowait(payment)
        answers = await asyncio.gather(
            *(asyncio.shield(payment.answer) for payment in payments), return_exceptions=True
        )
        return [
            one if isinstance(one, str | Pv4fadError | FailedError) else FailedError()
            for one in answers
        ]

    async def on_journal(self, work: Callable[..., T], *arguments: Any) -> T:
        """Something else that the journal does, in turn."""
        return await self._journal.aside(work, *arguments)

    async def act(self, action: dict[str, Any]) -> Alert | None:
        """Keep what somebody did at the desk, then apply it."""
        await self.on_journal(self._journal.act, action)
        return self.book.apply(action)

    async def run(self) -> None:
        """Until it is cancelled."""
        self.is_running = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._check_all())
                tasks.create_task(self._write_all())
        finally:
            self.is_running = False
            for task in self._deciding:
                task.cancel()
            self._worker.shutdown(wait=True)

    # From waiting to the engine.

    async def _check_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await _together(self._waiting)
            try:
                await self._begin(batch, loop)
            except Exception as error:
                _fail("payments could not be checked", error, batch)

    async def _begin(self, batch: list[_Payment], loop: asyncio.AbstractEventLoop) -> None:
        raws = [payment.raw for payment in batch]
        checked = await loop.run_in_executor(self._worker, check, self._schema, raws)
        for number, problem in checked.problems.items():
            _answer(batch[number], DataError(problem))
        contents = plain(checked.rows)
        kept: list[int] = []
        for row, (number, content) in enumerate(zip(checked.numbers, contents, strict=True)):
            payment = batch[number]
            payment.content, payment.digest = content, digest(content)
            payment.id = content[self._schema.rows.id]
            first = self._under_way.setdefault(payment.id, payment)
            if first is payment:
                kept.append(row)
            elif first.digest != payment.digest:
                _answer(payment, _other_payment())
            else:
                first.answer.add_done_callback(partial(_copy, payment))
        ids = [contents[row][self._schema.rows.id] for row in kept]
        decided = await self.on_journal(self._journal.find, ids)
        for payment_id, entry in decided.items():
            payment = self._under_way[payment_id]
            same = entry.digest == payment.digest
            _answer(payment, entry.answer if same else _other_payment())
        new = [row for row in kept if contents[row][self._schema.rows.id] not in decided]
        if not new:
            return
        rows = checked.rows[new]
        known = await loop.run_in_executor(self._worker, self._rows.take, rows)
        self.watch.features(known.features)
        payments = [self._under_way[contents[row][self._schema.rows.id]] for row in new]
        task = loop.create_task(self._decide(payments, known))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)

    async def _decide(self, payments: list[_Payment], known: Any) -> None:
        left = set(range(len(payments)))
        try:
            async for part in self._engine.decide(known):
                self._take(payments, part)
                left.difference_update(part.rows.tolist())
            if left:
                raise OrderError("the engine has left out payments")
        except Exception as error:
            _fail("payments could not be decided", error, [payments[number] for number in left])

    def _take(self, payments: list[_Payment], part: Decided) -> None:
        ids = [payment.id for payment in payments]
        found = decisions_of(part, ids, datetime.now(UTC))
        self.watch.scores(part.table["LocalScore"].to_numpy())
        for number, decision in zip(part.rows, found, strict=True):
            payment = payments[number]
            answer = decision.to_json().decode()
            entry = Entry(
                decision.id, payment.digest, answer, payment.content, alert=decision.alert
            )
            self.watch.decided(decision)
            self._to_write.put_nowait((entry, payment))

    # From the engine to the journal.

    async def _write_all(self) -> None:
        while True:
            together = await _together(self._to_write)
            entries = [entry for entry, _ in together]
            try:
                numbers = await self.on_journal(self._journal.write, entries)
            except Exception as error:
                _fail("decisions could not be written", error, [one for _, one in together])
                continue
            alerts = self.book.add(entries, numbers)
            now = time.perf_counter()
            for entry, payment in together:
                self.watch.answered(now - payment.came)
                _answer(payment, entry.answer)
            for alert in alerts:
                self._told(alert)

    def _forget(self, payment: _Payment, done: asyncio.Future[str]) -> None:
        self._n_under_way -= 1
        if not done.cancelled():
            done.exception()  # or asyncio reports one that nobody waits for any more
        if self._under_way.get(payment.id) is payment:
            del self._under_way[payment.id]


async def _together(queue: asyncio.Queue[T]) -> list[T]:
    """All that is waiting, at least one."""
    found = [await queue.get()]
    while len(found) < MOST_TOGETHER and not queue.empty():
        found.append(queue.get_nowait())
    return found


def _other_payment() -> OrderError:
    return OrderError("another payment with this id has been decided before")


def _answer(payment: _Payment, answer: str | Exception) -> None:
    if payment.answer.done():
        return
    if isinstance(answer, str):
        payment.answer.set_result(answer)
    else:
        payment.answer.set_exception(answer)


def _copy(also: _Payment, done: asyncio.Future[str]) -> None:
    if done.cancelled():
        _answer(also, FailedError())
    else:
        _answer(also, done.exception() or done.result())  # type: ignore[arg-type]


def _fail(what: str, error: Exception, payments: Sequence[_Payment]) -> None:
    # The text of an error may name accounts; where it happened is enough for a log.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    _log.error("%s: %s in %s:%s", what, type(error).__name__, frame.filename, frame.lineno)
    for payment in payments:
        _answer(payment, FailedError())
