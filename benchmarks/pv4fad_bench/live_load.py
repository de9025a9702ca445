"""Payments sent at drawn times whatever the service does, and the time until each is answered.

Arrivals are a Poisson process.  What has arrived within some milliseconds is sent as one batch, as
a gateway would; the time of each payment counts from its own drawn arrival to the answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOGETHER_S = 0.01


@dataclass(frozen=True)
class Answered:
    """Of each payment: the answer, and how long it took."""

    answers: list[dict[str, Any]] = field(repr=False)
    seconds: NDArray[np.float64] = field(repr=False)


class Connections:
    """HTTP/1.1 to one service, connections kept open and used one request at a time."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, payments: Sequence[bytes]) -> tuple[int, Any]:
        """A batch: status and content of the answer; `OSError` or `EOFError` if there is none."""
        body = b"[" + b",".join(payments) + b"]"
        reader, writer = (
            self._free.pop()
            if self._free
            else await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        )
        try:
            writer.write(
                b"POST /payments/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
                b" application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                % (self._token.encode(), len(body))
            )
            writer.write(body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            answer = (await reader.readexactly(length)).decode()
        except BaseException:
            writer.close()
            raise
        self._free.append((reader, writer))
        is_json = "content-type: application/json" in head.lower()
        return int(head.split(" ", 2)[1]), json.loads(answer) if is_json else answer

    def forget(self) -> None:
        """All connections that are free: the service has ended."""
        for _, writer in self._free:
            writer.close()
        self._free.clear()


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
        status, found = await connections.post(bodies[first:last])
        now = time.perf_counter() - start
        if status != 200:
            raise RuntimeError(f"{status}: {found}")
        answers[first:last] = found
        seconds[first:last] = now - due[first:last]

    async with asyncio.TaskGroup() as sending:
        first = 0
        while first < len(bodies):
            await asyncio.sleep(max(0.0, start + due[first] + _TOGETHER_S - time.perf_counter()))
            last = int(np.searchsorted(due, time.perf_counter() - start, side="right"))
            last = min(max(last, first + 1), first + 5_000)
            sending.create_task(send(first, last))
            first = last
    return Answered(answers, seconds)
