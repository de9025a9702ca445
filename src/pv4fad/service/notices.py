"""Delivering what was handed over: each notice until its bank has acknowledged or refused it.

A bank gets one notice at a time, oldest first, and always the same bytes for the same notice, so a
bank keeps it once however often it comes.  No bank waits for another.  Which notices wait is in the
journal.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from pv4fad.deployment.bank_answers import NOT_YET, REFUSED
from pv4fad.deployment.hub.live import LiveQuestions, NoAnswerError
from pv4fad.errors import ParameterError, ProtocolError, Pv4fadError
from pv4fad.protocol.notify.messages import Notify, notice
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.service.alerts import Alert, HandedOver
from pv4fad.service.parts import NoticeCarrier
from pv4fad.service.pipeline import Pipeline

AGAIN_AFTER_S = 30.0
_KEPT_AFTER_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # a bank that is busy keeps a notice later
_ANSWER_WITHIN_S = 10.0
_log = logging.getLogger("pv4fad.service")


class LiveNotices:
    """Brings notices to banks as live messages (`deployment.bank_answers`)."""

    def __init__(self, questions: LiveQuestions) -> None:
        self._questions = questions

    async def carry(self, bank: str, message: bytes) -> bytes:
        """The bank's answer; asks until it has kept the notice, for some seconds."""
        for wait_s in (*_KEPT_AFTER_S, 0.0):
            reply = await self._questions.ask(bank, message, _ANSWER_WITHIN_S)
            if reply != NOT_YET:
                return reply
            await asyncio.sleep(wait_s)
        raise NoAnswerError(f"{bank} has not kept the notice yet")


class Outbox:
    """`run` delivers until it is cancelled."""

    def __init__(self, pipeline: Pipeline, carrier: NoticeCarrier) -> None:
        self._pipeline, self._carrier = pipeline, carrier
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is something to deliver."""
        self._woken.set()

    async def run(self) -> None:
        at_work: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._woken.clear()
                for bank in {given.bank for _, given in self._pipeline.book.waiting()}:
                    if bank not in at_work or at_work[bank].done():
                        at_work[bank] = tasks.create_task(self._to_bank(bank))
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_AFTER_S):
                        await self._woken.wait()

    async def _to_bank(self, bank: str) -> None:
        """All that waits for it, until one does not reach it."""
        tried: set[int] = set()
        while (found := self._next(bank, tried)) is not None:
            alert, given = found
            tried.add(given.notice)
            try:
                await self._deliver(alert, given)
            except ParameterError as error:  # of an earlier version, which did not look
                _log.warning("a notice cannot be sent to %s: %s", bank, error)
            except (Pv4fadError, OSError) as error:
                _log.warning("a notice did not reach %s: %s", bank, type(error).__name__)
                return
            except Exception as error:  # one bank, or one notice, must not end all delivery
                _log.error("a notice did not reach %s", bank, exc_info=error)
                self._pipeline.watch.figures.failed(error)
                return

    def _next(self, bank: str, tried: set[int]) -> tuple[Alert, HandedOver] | None:
        """The oldest that waits for a bank."""
        waiting = (
            one
            for one in self._pipeline.book.waiting()
            if one[1].bank == bank and one[1].notice not in tried
        )
        return min(waiting, key=lambda one: one[1].time, default=None)

    async def _deliver(self, alert: Alert, given: HandedOver) -> None:
        """What became of it is in the journal."""
        reply = await self._carrier.carry(given.bank, encode(notice_of(alert, given)))
        if reply == REFUSED:
            _log.warning("%s has refused a notice: its log says why", given.bank)
            became = self._pipeline.book.refused
        else:
            receipt = decode(reply)
            if not isinstance(receipt, Receipt):
                raise ProtocolError("not a receipt")
            expect_receipt_of(Notify, receipt)
            became = self._pipeline.book.delivered
        await self._pipeline.act(became(alert.number, given.notice))


def notice_of(alert: Alert, given: HandedOver) -> Notify:
    """What the bank gets, and nothing else of the payment."""
    address = Address(PAYMENT_NETWORK, given.bank, given.run_id, index=given.notice)
    return notice(address, alert.decision.id, given.account, alert.decision.level)
