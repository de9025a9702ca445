"""Worker processes of this machine, started afresh rather than forked.

Threads of other libraries do not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Generic

from pv4fad.errors import WorkerError
from pv4fad.workers.parcel import Packed, Parcel, new_parcel
from pv4fad.workers.shared import SharedBytes, shared_file
from pv4fad.workers.usage import Done, Job, Result, measured

_DIED = (
    "a worker process died (out of memory, or killed); nothing was lost: run again, with fewer "
    "workers if memory is short"
)


@dataclass(frozen=True)
class ProcessJob(Generic[Result]):
    """A job under way in one of them."""

    future: Future[Any]
    executor: ProcessPoolExecutor
    processes: Processes
    parcel: Parcel | None

    def done(self) -> Done[Result]:
        try:
            answer = self.future.result()
        except BrokenProcessPool:
            self.processes.died(self.executor)
            raise WorkerError(_DIED) from None
        done: Done[Result] = self.parcel.unpack(answer) if self.parcel else answer
        return done

    def cancel(self) -> None:
        self.future.cancel()


class Processes:
    """`n_workers` of them, from the first job on; several threads may submit jobs."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.n_died = 0
        """How often new ones had to be started."""
        self._lock = Lock()
        self._executor: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[[Job], Result], job: Job) -> ProcessJob[Result]:
        executor = self._started()  # starts the tracker, which lets interrupts through
        parcel = new_parcel()
        work = (_answer, parcel.pack((function, job))) if parcel else (measured, function, job)
        with _interrupts_held():
            try:
                future = executor.submit(*work)
            except BrokenProcessPool:  # another thread is about to say so, too
                raise WorkerError(_DIED) from None
            # A worker can be at it when nobody waits any more: its file has to stay.
            future.add_done_callback(lambda _: parcel)
        return ProcessJob(future, executor, self, parcel)

    def share(self, chunks: Iterable[bytes]) -> SharedBytes:
        return shared_file(chunks)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None:
                spawn = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(
                    self.n_workers, mp_context=spawn, initializer=_end_with_parent
                )
            return self._executor

    def close(self) -> None:
        self.end(self._executor)

    def died(self, executor: ProcessPoolExecutor) -> None:
        """One of an executor has: the others end as well."""
        with self._lock:
            if self._executor is executor:
                self.n_died, self._executor = self.n_died + 1, None
        self.end(executor)

    def end(self, executor: ProcessPoolExecutor | None) -> None:
        """Those of an executor; the next job starts new ones."""
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        with self._lock:
            if self._executor is executor:
                self._executor = None


def _answer(packed: Packed) -> Packed:
    """In a worker."""
    return packed.answered(lambda work: measured(*work))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A worker started meanwhile never sees an interrupt: Ctrl-C is for its parent to handle."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for jobs forever, and keep its memory."""
    parent = multiprocessing.parent_process()

    def wait_and_exit() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait_and_exit, daemon=True).start()
