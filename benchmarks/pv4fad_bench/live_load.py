"""Payments sent at drawn times whatever the service does, and the time until each is answered.

Arrivals are a Poisson process.  What has arrived within some milliseconds is sent as one batch, as
a gateway would, and answered payment by payment; the time of each counts from its own drawn arrival
to its answer.  What is refused because too much is under way is not sent again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOGETHER_S = 0.01
_TOO_MUCH = (429, 503)

Take = Callable[[int, dict[str, Any]], None]
"""Which payment of a batch, from 0 on, and its answer."""


@dataclass(frozen=True)
class Answered:
    """Of each payment: the answer, {} if it was refused, and how long it took."""

    answers: list[dict[str, Any]] = field(repr=False)
    seconds: NDArray[np.float64] = field(repr=False)


class Connections:
    """HTTP/1.1 to one service, connections kept open and used one request at a time."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, payments: Sequence[bytes], take: Take) -> tuple[int, str]:
        """A batch; the status, and what is wrong if it is not 200.

        `take` is called with every answer when it comes.  `OSError` or `EOFError` if the connection
        breaks: there may have been some answers before.
        """
        body = b"[" + b",".join(payments) + b"]"
        reader, writer = (
            self._free.pop()
            if self._free
            else await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        )
        try:
            writer.write(
                b"POST /payments/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
                b" application/json\r\nAccept: application/x-ndjson\r\nAuthorization: Bearer %s\r\n"
                b"Content-Length: %d\r\n\r\n" % (self._token.encode(), len(body))
            )
            writer.write(body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            status, wrong = int(head.split(" ", 2)[1]), ""
            if "transfer-encoding: chunked" in head:
                async for chunk in _chunks(reader):
                    for line in chunk.splitlines():
                        number, answer = json.loads(line)
                        take(number - 1, answer)
            else:
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                wrong = (await reader.readexactly(length)).decode()
        except BaseException:
            writer.close()
            raise
        self._free.append((reader, writer))
        return status, wrong

    def forget(self) -> None:
        """All connections that are free."""
        for _, writer in self._free:
            writer.close()
        self._free.clear()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Of a body; the service ends each of them with a line of its own."""
    while length := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(length)
        await reader.readexactly(2)
    await reader.readexactly(2)


def send_all(port: int, token: str, bodies: Sequence[bytes], rate: float, seed: int) -> Answered:
    """All payments, at `rate` per second on average."""
    rng = np.random.default_rng(seed)
    due = np.cumsum(rng.exponential(1 / rate, len(bodies)))
    return asyncio.run(_send_all(Connections(port, token), bodies, due))


async def _send_all(
    connections: Connections, bodies: Sequence[bytes], due: NDArray[np.float64]
) -> Answered:
    answers: list[dict[str, Any]] = [{}] * len(bodies)
    seconds = np.zeros(len(bodies))
    start = time.perf_counter() + 0.1

    async def send(first: int, last: int) -> None:
        def take(number: int, answer: dict[str, Any]) -> None:
            answers[first + number] = _decision(answer)
            seconds[first + number] = time.perf_counter() - start - due[first + number]

        status, wrong = await connections.post(bodies[first:last], take)
        if status not in (200, *_TOO_MUCH):
            raise RuntimeError(f"{status}: {wrong}")

    async with asyncio.TaskGroup() as sending:
        first = 0
        while first < len(bodies):
            await asyncio.sleep(max(0.0, start + due[first] + _TOGETHER_S - time.perf_counter()))
            last = int(np.searchsorted(due, time.perf_counter() - start, side="right"))
            last = min(max(last, first + 1), first + 5_000)
            sending.create_task(send(first, last))
            first = last
    connections.forget()
    return Answered(answers, seconds)


def _decision(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" not in answer:
        return answer
    if answer["status"] not in _TOO_MUCH:
        raise RuntimeError(str(answer))
    return {}
