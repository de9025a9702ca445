"""The worker processes as the event loop sees them: queries are made elsewhere, bytes come back.

Each bank belongs to one worker.  A worker that dies is started again; meanwhile queries of its
banks fail.  The number of queries under way is bounded by whoever asks: two for each bank.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

from pv4fad.errors import WorkerError
from pv4fad.protocol.live.steps import Placed, Query
from pv4fad.service.asking.worker import (
    HEAD,
    BankSetup,
    Kind,
    frame,
    query_body,
    read_made,
)
from pv4fad.workers import available_cores

_AGAIN_AFTER_S = 0.5
_MOST_BYTES = 2**20  # of a frame from a worker
_log = logging.getLogger("pv4fad.live")


class _Worker:
    """One process, started again when it ends."""

    def __init__(self, banks: Mapping[str, BankSetup], shares: BinaryIO) -> None:
        self._banks = list(banks)
        self._setups = list(banks.values())
        self._shares = shares
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Query]] = {}
        self._number = 0
        self.ready = asyncio.Event()
        self.pid = 0
        self.n_died = 0

    def query(self, bank: str, placed: Placed) -> asyncio.Future[Query]:
        made: asyncio.Future[Query] = asyncio.get_running_loop().create_future()
        if not self.ready.is_set() or self._process is None or self._process.stdin is None:
            made.set_exception(_ended())
            return made
        self._number += 1
        self._waiting[self._number] = made
        body = query_body(self._banks.index(bank), self._number, placed)
        self._process.stdin.write(frame(Kind.QUERY, body))
        return made

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._serve()
            except Exception as error:
                kind = type(error).__name__
                _log.warning("a worker process ended; it is started again (%s)", kind)
                self.n_died += 1
            finally:
                await self._end()
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _serve(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pv4fad.service.asking.worker", str(self._shares.fileno())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[self._shares.fileno()],
            start_new_session=True,  # Ctrl-C is for its parent
            limit=_MOST_BYTES,
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        self.pid = process.pid
        for setup in self._setups:
            process.stdin.write(frame(Kind.BANK, setup.to_bytes()))
        process.stdin.write(frame(Kind.BEGIN))
        while True:
            length, kind = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
            if length > _MOST_BYTES:
                raise OSError("a frame that is too long")
            body = await process.stdout.readexactly(length)
            if kind == Kind.READY:
                self.ready.set()
            else:
                _, number, query = read_made(body)
                made = self._waiting.pop(number)
                if not made.done():
                    made.set_result(query)

    async def _end(self) -> None:
        self.ready.clear()
        for made in self._waiting.values():
            if not made.done():
                made.set_exception(_ended())
        self._waiting.clear()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._process = None


class Crew:
    """All workers."""

    def __init__(
        self, banks: Mapping[str, BankSetup], shares: BinaryIO, n_workers: int | None = None
    ) -> None:
        """By default two workers per core, and no more than banks: so a few banks that do not
        divide by the cores share them evenly."""
        n_workers = n_workers or min(len(banks), 2 * available_cores())
        names = list(banks)
        self._workers = [
            _Worker({name: banks[name] for name in names[i::n_workers]}, shares)
            for i in range(n_workers)
        ]
        self._of_bank = {name: self._workers[i % n_workers] for i, name in enumerate(names)}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The workers run until the block ends."""
        tasks = [asyncio.create_task(worker.run()) for worker in self._workers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def ready(self) -> None:
        """When all workers are."""
        await asyncio.gather(*(worker.ready.wait() for worker in self._workers))

    def query(self, bank: str, placed: Placed) -> asyncio.Future[Query]:
        """Made in its worker; `WorkerError` if that ends before."""
        return self._of_bank[bank].query(bank, placed)

    @property
    def n_died(self) -> int:
        """How often a worker has ended, and was started again."""
        return sum(worker.n_died for worker in self._workers)

    @property
    def pids(self) -> Sequence[int]:
        return [worker.pid for worker in self._workers]


def _ended() -> WorkerError:
    return WorkerError("the worker process of this bank is not running")
