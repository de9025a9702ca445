"""The client of `pv4fad bench soak`: sends payments, and again until each has its decision.

A payment that gets no answer, or is told to come again, is sent again with the same id, as a
gateway would.  Some payments are sent once more after they were answered: they must get the same
bytes.  Questions do not run out: payments with an account that nobody has asked about are spread
over the whole time, and the others are drawn from all.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pv4fad_bench.live_load import Connections
from pv4fad_bench.live_world import Payments

ONCE_MORE = 50
"""One payment of so many is sent again after it was answered."""
_AGAIN_AFTER_S = 0.25
_ANSWER_WITHIN_S = 40.0
_GIVE_UP_AFTER_S = 180.0
_TOGETHER_S = 0.02
_MADE_AT_ONCE = 500


@dataclass
class Sent:
    """One payment."""

    id: str
    row: int
    """Of the payments that there are."""
    body: bytes = field(repr=False)
    due_s: float
    answer: dict[str, Any] | None = field(default=None, repr=False)
    seconds: float = 0.0
    tries: int = 0
    fault: str = ""

    @property
    def text(self) -> str:
        """The answer, as the journal has it."""
        return json.dumps(self.answer, separators=(",", ":"))


def drawn(
    payments: Payments, rate: float, seconds: float, rng: np.random.Generator
) -> Iterator[Sent]:
    """Payments to send, by time."""
    due = np.cumsum(rng.exponential(1 / rate, int(rate * seconds)))
    rows = rng.integers(len(payments.rows), size=len(due))
    first = payments.first_dealings()[: len(due)]
    rows[np.linspace(0, len(due) - 1, len(first)).astype(np.int64)] = first
    for start in range(0, len(due), _MADE_AT_ONCE):
        some = slice(start, start + _MADE_AT_ONCE)
        ids = [f"soak-{start + n}" for n in range(len(rows[some]))]
        bodies = payments.bodies(rows[some], ids, start)
        for one in zip(ids, rows[some].tolist(), bodies, due[some].tolist(), strict=True):
            yield Sent(*one)


class Load:
    """All that is sent, and what came back."""

    def __init__(self, port: int, token: str) -> None:
        self._connections = Connections(port, token)
        self.sent: list[Sent] = []
        self.n_once_more = 0
        self.start = 0.0

    async def send(self, payments: Iterator[Sent]) -> None:
        """Until all are answered, or given up."""
        self.start = time.monotonic()
        async with asyncio.TaskGroup() as sending:
            together: list[Sent] = []
            for one in payments:
                if together and one.due_s > together[0].due_s + _TOGETHER_S:
                    await self._until(together[-1].due_s)
                    sending.create_task(self._decide(together))
                    together = []
                together.append(one)
                self.sent.append(one)
            sending.create_task(self._decide(together))

    async def _until(self, due_s: float) -> None:
        await asyncio.sleep(max(0.0, self.start + due_s - time.monotonic()))

    async def _decide(self, payments: list[Sent]) -> None:
        left = payments
        while left:
            left = await self._try(left)
            if left and time.monotonic() - self.start - left[0].due_s > _GIVE_UP_AFTER_S:
                for one in left:
                    one.fault = "no decision"
                return
            if left:
                await asyncio.sleep(_AGAIN_AFTER_S)
        again = [one for one in payments if int(one.id.split("-")[1]) % ONCE_MORE == 0]
        if again:
            await asyncio.sleep(1)
            await self._once_more(again)

    async def _try(self, payments: list[Sent]) -> list[Sent]:
        """Those that have to be sent again."""
        for one in payments:
            one.tries += 1
        answers = await self._post(payments)
        now = time.monotonic() - self.start
        left = []
        for one, answer in zip(payments, answers, strict=True):
            if answer is None or answer.get("status") == 503:
                left.append(one)
            elif "error" in answer:
                one.fault = f"refused: {answer}"
            else:
                one.answer, one.seconds = answer, now - one.due_s
        return left

    async def _post(self, payments: list[Sent]) -> list[dict[str, Any] | None]:
        answers: list[dict[str, Any] | None] = [None] * len(payments)
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                status, wrong = await self._connections.post(
                    [one.body for one in payments], answers.__setitem__
                )
        except (OSError, EOFError, TimeoutError):
            self._connections.forget()
            return answers  # some may have come
        if status not in (200, 429, 503):
            return [{"error": f"{status}: {wrong}"}] * len(payments)
        return answers

    async def _once_more(self, payments: list[Sent]) -> None:
        answers = await self._post(payments)
        for one, answer in zip(payments, answers, strict=True):
            if answer is not None and answer.get("status") != 503:
                self.n_once_more += 1
                if answer != one.answer:
                    one.fault = "another decision when it was sent again"
