"""Worker processes for HE: the library holds the interpreter's lock, so one process per core.

Jobs and results are plain data: bytes and arrays.  Results come in the order of the jobs, and only
a few jobs are under way at a time, so that memory depends on the size of a job and not on their
number.  Workers are started afresh rather than forked: threads of other libraries do not survive
a fork.  The death of a worker is a `WorkerError`; errors a job raises on purpose pass through.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeAlias, TypeVar

from pv4fad.errors import ParameterError, WorkerError

Job = TypeVar("Job")
Result = TypeVar("Result")
Running: TypeAlias = Future[tuple[Result, int, float, int]]  # result, process, CPU s, peak bytes
Pending: TypeAlias = deque[Running[Result]]

_MOST_WORKERS = 1024


@dataclass
class Usage:
    """What the worker processes have used so far, by process id."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_bytes: dict[int, int] = field(default_factory=dict)


class WorkerPool:
    """`n_workers` processes; 0 runs every job in this process, one after the other."""

    def __init__(self, n_workers: int | None = None) -> None:
        self.n_workers = available_cores() if n_workers is None else n_workers
        if not 0 <= self.n_workers <= _MOST_WORKERS:
            raise ParameterError(f"workers {n_workers}: give 0 to {_MOST_WORKERS}")
        self.usage = Usage()
        self._executor: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """function(job) for each job, in order; `function` must be defined at module level."""
        if self.n_workers == 0:
            yield from map(function, jobs)
            return
        pending: Pending[Result] = deque()
        with self._watching(pending):
            for job in jobs:
                pending.append(self._submit(function, job))
                # One job waiting per worker keeps all of them busy while results are taken.
                if len(pending) >= 2 * self.n_workers:
                    yield self._result(pending.popleft())
            while pending:
                yield self._result(pending.popleft())

    def begin(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As `map`, with all jobs under way at once: for results that are wanted later."""
        if self.n_workers == 0:
            return map(function, jobs)
        return self._collected(deque([self._submit(function, job) for job in jobs]))

    def _collected(self, pending: Pending[Result]) -> Iterator[Result]:
        with self._watching(pending):
            while pending:
                yield self._result(pending.popleft())

    def _submit(self, function: Callable[[Job], Result], job: Job) -> Running[Result]:
        executor = self._started()  # starts the tracker, which lets interrupts through
        with _interrupts_held():
            return executor.submit(_measured, function, job)

    @contextmanager
    def _watching(self, pending: Pending[Any]) -> Iterator[None]:
        """Turns the death of a worker into a clear error; what is left is not run in vain."""
        try:
            yield
        except BrokenProcessPool:
            self.close()
            raise WorkerError(
                "a worker process died (out of memory, or killed); nothing was lost: run again, "
                "with fewer workers if memory is short"
            ) from None
        finally:
            for future in pending:
                future.cancel()

    def _result(self, future: Running[Result]) -> Result:
        result, pid, cpu_s, peak_bytes = future.result()
        self.usage.cpu_s[pid] = self.usage.cpu_s.get(pid, 0.0) + cpu_s
        self.usage.peak_bytes[pid] = peak_bytes
        return result

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            spawn = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(
                self.n_workers, mp_context=spawn, initializer=_end_with_parent
            )
        return self._executor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory_bytes() -> int:
    """The largest resident size of this process so far."""
    # What the system reports as used resources includes the process that started this one.
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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


def _measured(function: Callable[[Job], Result], job: Job) -> tuple[Result, int, float, int]:
    start = time.process_time()
    result = function(job)
    return result, os.getpid(), time.process_time() - start, peak_memory_bytes()
