"""The way of a payment: checked, looked up, judged, written, answered.

    submit ─▶ waiting ─▶ check ─▶ known? ─▶ rows ─▶ engine ─▶ to write ─▶ journal ─▶ answer

What has come in while a batch was being checked is the next batch, but not sooner than some
milliseconds after the one before: every batch costs as much as dozens of payments.  What has been
decided while the journal was writing is its next commit.

The number of payments between `submit` and the answer is bounded, and so is the time until they are
checked: a request that comes when there are more, or when one has waited for longer, is refused at
once.

A payment id gets one decision.  The same payment again gets the same bytes, also while the first
is still under way; another payment with a known id is refused.  Killed anywhere, a payment that
was not answered is in the journal or is not, and the client asks again.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from pv4fad.errors import DataError, OrderError, Pv4fadError
from pv4fad.lead.rows import NewRows
from pv4fad.service.alerts import Alert, AlertBook
from pv4fad.service.aside import aside
from pv4fad.service.decisions import Decided, decisions_of
from pv4fad.service.intake import Checked, Intake, Raw, digest
from pv4fad.service.journal import Entry
from pv4fad.service.parts import Parts

MOST_PAYMENTS = 20_000
"""Under way at a time, over all requests."""
MOST_WAITED_S = 1.0
"""By the payment that is checked next; the service is behind, and takes no more."""
MOST_TOGETHER = 500
"""In one batch: a payment that comes after them waits for some hundred milliseconds at most."""

TOGETHER = 2.5
"""From one batch to the next, in times that the one before took: longer where the machine is slow
or busy, so that it is some two fifths of a core.  After a pause a payment does not wait."""
MOST_TOGETHER_S = 0.05

T = TypeVar("T")
_log = logging.getLogger("pv4fad.service")


class OverloadedError(Exception):
    """There is no room for more payments now."""


class FailedError(Exception):
    """The service could not decide; the client may try again."""


Answer = str | Pv4fadError | FailedError


class Submission:
    """Payments that came together; each is answered when it is decided."""

    def __init__(self, n_payments: int) -> None:
        self._n_left = n_payments
        self._answered: list[tuple[int, Answer]] = []
        """That nobody has read yet."""
        self._some = asyncio.Event()

    def take(self, position: int, answer: Answer) -> None:
        self._answered.append((position, answer))
        self._n_left -= 1
        self._some.set()

    async def answers(self, within_s: float) -> AsyncIterator[list[tuple[int, Answer]]]:
        """The answer to each payment, or what is wrong with it; some together, as they come.

        `TimeoutError` if they have not all come in this time.
        """
        until = asyncio.get_running_loop().time() + within_s
        while self._n_left or self._answered:
            async with asyncio.timeout_at(until):
                await self._some.wait()
            self._some.clear()
            found, self._answered = self._answered, []
            yield found


@dataclass(eq=False, slots=True)
class _Payment:
    """One payment under way."""

    raw: Raw = field(repr=False)
    submission: Submission = field(repr=False)
    position: int
    came: float
    id: str = ""
    digest: str = ""
    text: str = field(default="", repr=False)
    same: list[_Payment] = field(default_factory=list, repr=False)
    """The same payment again, meanwhile."""
    is_taken: bool = False
    """Known to payments that come after it."""
    is_answered: bool = False


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
        self.intake = Intake(parts.schema)
        self.book = AlertBook.of_journal(parts.schema, parts.journal)
        self._id, self._journal = parts.schema.rows.id, parts.journal
        self._rows, self._engine = parts.rows, parts.engine
        self._most, self._told = most_payments, told
        self._waiting: _Queue[_Payment] = _Queue()
        self._to_write: _Queue[tuple[Entry, _Payment]] = _Queue()
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

    def submit(self, raws: Sequence[Raw]) -> Submission:
        """Payments to be decided; `OverloadedError` if there is no room for them."""
        now = time.perf_counter()
        is_behind = bool(self._waiting) and now - self._waiting[0].came > MOST_WAITED_S
        if not self.is_running or is_behind or self._n_under_way + len(raws) > self._most:
            self.watch.refused(len(raws))
            raise OverloadedError
        submission = Submission(len(raws))
        self._n_under_way += len(raws)
        self._waiting.put(_Payment(raw, submission, at, now) for at, raw in enumerate(raws))
        return submission

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
        next_begins = 0.0
        while True:
            await self._waiting.some()
            await asyncio.sleep(next_begins - time.monotonic())
            begun = time.monotonic()
            batch = await self._waiting.together()
            try:
                await self._begin(batch)
            except Exception as error:
                self._fail("payments could not be checked", error, batch)
            took = time.monotonic() - begun
            next_begins = begun + min(TOGETHER * took, MOST_TOGETHER_S)

    async def _begin(self, batch: list[_Payment]) -> None:
        loop = asyncio.get_running_loop()
        raws = [payment.raw for payment in batch]
        checked, ids, digests = await aside(len(raws), self._check, raws)
        for number, problem in checked.problems.items():
            self._answer(batch[number], DataError(problem))
        new: list[int] = []
        for row, number in enumerate(checked.numbers):
            payment = batch[number]
            payment.id, payment.digest, payment.text = ids[row], digests[row], checked.texts[row]
            first = self._under_way.setdefault(payment.id, payment)
            if first is payment:
                new.append(row)
            elif first.digest != payment.digest:
                self._answer(payment, _other_payment())
            else:
                first.same.append(payment)
        decided, known = await loop.run_in_executor(self._worker, self._look_up, checked, ids, new)
        for payment_id, entry in decided.items():
            payment = self._under_way[payment_id]
            same = entry.digest == payment.digest
            self._answer(payment, entry.answer if same else _other_payment())
        if known is None:
            return
        payments = [self._under_way[ids[row]] for row in new if ids[row] not in decided]
        for payment in payments:
            payment.is_taken = True
        self.watch.features(known.features)
        task = loop.create_task(self._decide(payments, known))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)

    def _check(self, raws: list[Raw]) -> tuple[Checked, list[str], list[str]]:
        checked = self.intake.check(raws)
        return checked, checked.rows[self._id].to_list(), list(map(digest, checked.texts))

    def _look_up(
        self, checked: Checked, ids: list[str], rows: list[int]
    ) -> tuple[dict[str, Entry], NewRows | None]:
        """Those of these rows that have their decision, and what is known about the others."""
        decided = self._journal.find([ids[row] for row in rows])
        new = [row for row in rows if ids[row] not in decided]
        if not new:
            return decided, None
        together = checked.rows if len(new) == len(ids) else checked.rows[new]
        return decided, self._rows.take(together, [checked.texts[row] for row in new])

    async def _decide(self, payments: list[_Payment], known: NewRows) -> None:
        left = set(range(len(payments)))
        try:
            async for part in self._engine.decide(known):
                self._take(payments, part)
                left.difference_update(part.rows.tolist())
            if left:
                raise OrderError("the engine has left out payments")
        except Exception as error:
            self._fail("payments could not be decided", error, [payments[one] for one in left])

    def _take(self, payments: list[_Payment], part: Decided) -> None:
        ids, names = [payment.id for payment in payments], self.intake.names
        found = decisions_of(part, ids, datetime.now(UTC))
        self.watch.decided(found, part.table["LocalScore"].to_numpy())
        to_write = []
        for number, decision in zip(part.rows.tolist(), found, strict=True):
            payment = payments[number]
            answer = decision.to_json().decode()
            entry = Entry(
                decision.id, payment.digest, answer, names, payment.text, alert=decision.alert
            )
            to_write.append((entry, payment))
        self._to_write.put(to_write)

    # From the engine to the journal.

    async def _write_all(self) -> None:
        while True:
            together = await self._to_write.together()
            entries = [entry for entry, _ in together]
            try:
                numbers = await self.on_journal(self._journal.write, entries)
            except Exception as error:
                payments = [payment for _, payment in together]
                self._fail("decisions could not be written", error, payments)
                continue
            self._rows.decided([entry.payment_id for entry in entries])
            alerts = self.book.add(entries, numbers)
            now = time.perf_counter()
            self.watch.answered([now - payment.came for _, payment in together])
            for entry, payment in together:
                self._answer(payment, entry.answer)
            for alert in alerts:
                self._told(alert)

    def _answer(self, payment: _Payment, answer: Answer) -> None:
        """Once: an engine that fails later fails only what it has left."""
        if payment.is_answered:
            return
        payment.is_answered = True
        self._n_under_way -= 1
        if self._under_way.get(payment.id) is payment:
            del self._under_way[payment.id]
        payment.submission.take(payment.position, answer)
        for same in payment.same:
            self._answer(same, answer)

    def _fail(self, what: str, error: Exception, payments: Sequence[_Payment]) -> None:
        # The text of an error may name accounts; where it happened is enough for a log.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        _log.error("%s: %s in %s:%s", what, type(error).__name__, frame.filename, frame.lineno)
        self.watch.figures.failed(error)
        failed = [payment for payment in payments if not payment.is_answered]
        if taken := [payment.id for payment in failed if payment.is_taken]:
            self._rows.undecided(taken)
        for payment in failed:
            self._answer(payment, FailedError("not decided: send the payment again"))


class _Queue(deque[T]):
    """Items that are taken many at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._some = asyncio.Event()

    async def some(self) -> None:
        """Until something is waiting."""
        await self._some.wait()

    def put(self, items: Any) -> None:
        self.extend(items)
        if self:
            self._some.set()

    async def together(self) -> list[T]:
        """All that is waiting, at least one, at most `MOST_TOGETHER`."""
        await self.some()
        found = [self.popleft() for _ in range(min(len(self), MOST_TOGETHER))]
        if not self:
            self._some.clear()
        return found


def _other_payment() -> OrderError:
    return OrderError("another payment with this id has been decided before")
