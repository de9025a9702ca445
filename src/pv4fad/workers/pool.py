"""The one interface to workers, whether they are processes or a Ray cluster."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any, Protocol, Self, TypeAlias

from pv4fad.errors import ParameterError
from pv4fad.workers.processes import Processes
from pv4fad.workers.shared import SharedBytes, shared_file
from pv4fad.workers.usage import Done, Job, Result, Usage, available_cores

Workers: TypeAlias = int | str | None
"""A number of processes, `ray` or the address of a Ray cluster; None: one process per core."""

_MOST_WORKERS = 1024


class Running(Protocol[Result]):
    """A job under way."""

    def done(self) -> Done[Result]:
        """Its result, waited for."""

    def cancel(self) -> None:
        """Not run in vain, if it has not begun."""


Pending: TypeAlias = deque[Running[Result]]


class GivenUpError(Exception):
    """Another thread has failed, or was interrupted: nobody waits for this work any more."""


class Crew(Protocol):
    """Those who do the work."""

    n_workers: int
    n_died: int

    def submit(self, function: Callable[[Job], Result], job: Job) -> Running[Result]: ...
    def share(self, chunks: Iterable[bytes]) -> SharedBytes: ...
    def close(self) -> None: ...


class WorkerPool:
    """Runs jobs on `workers`; with 0, every job in this process, one after the other."""

    def __init__(self, workers: Workers = None) -> None:
        self.usage = Usage()
        self._given_up = Event()
        self._crew = _crew(given_workers(workers))
        self.n_workers = self._crew.n_workers if self._crew else 0

    @property
    def n_died(self) -> int:
        """How often workers have died, and new ones were needed."""
        return self._crew.n_died if self._crew else 0

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """function(job) for each job, in order; `function` must be defined at module level."""
        if self._crew is None:
            yield from map(function, jobs)
            return
        pending: Pending[Result] = deque()
        with _nothing_left_running(pending):
            for job in jobs:
                self._require_wanted()
                pending.append(self._crew.submit(function, job))
                # One job waiting per worker keeps all of them busy while results are taken.
                if len(pending) >= 2 * self._crew.n_workers:
                    yield self._result(pending.popleft())
            while pending:
                yield self._result(pending.popleft())

    def begin(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As `map`, with all jobs under way at once: for results that are wanted later."""
        if self._crew is None:
            return map(function, jobs)
        crew = self._crew
        return self._collected(deque([crew.submit(function, job) for job in jobs]))

    @contextmanager
    def threads(self, n_threads: int) -> Iterator[Executor]:
        """Threads that put jobs to the workers at the same time.

        If the block raises, jobs that have not begun are given up, and `map` raises in the other
        threads.  None of them is left running, nor is any job.
        """
        try:
            with ThreadPoolExecutor(n_threads) as threads:
                try:
                    yield threads
                except BaseException:
                    self._given_up.set()
                    raise
        finally:
            self._given_up.clear()

    def share(self, chunks: Iterable[bytes]) -> SharedBytes:
        """Bytes that many jobs read, as long as somebody holds the result."""
        return self._crew.share(chunks) if self._crew else shared_file(chunks)

    def _collected(self, pending: Pending[Result]) -> Iterator[Result]:
        with _nothing_left_running(pending):
            while pending:
                yield self._result(pending.popleft())

    def _result(self, job: Running[Result]) -> Result:
        done = job.done()
        self._require_wanted()
        self.usage.add(done)
        return done.result

    def _require_wanted(self) -> None:
        if self._given_up.is_set():
            raise GivenUpError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, or leave the cluster."""
        if self._crew:
            self._crew.close()


@contextmanager
def _nothing_left_running(pending: Pending[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for job in pending:
            job.cancel()


def given_workers(value: Workers) -> Workers:
    """As a person writes it: a number, also in a string, `ray`, or an address; checked."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,100}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        raise ParameterError(f"workers {value}: give a whole number")
    if isinstance(value, int) and not 0 <= value <= _MOST_WORKERS:
        raise ParameterError(f"workers {value}: give 0 to {_MOST_WORKERS}")
    if isinstance(value, str) and value != "ray" and not re.search(":[0-9]+$", value):
        raise ParameterError(
            f"workers {value!r}: give a number of processes, ray, or the address of a Ray cluster"
            " such as ray://host:10001"
        )
    return value


def _crew(workers: Workers) -> Crew | None:
    if isinstance(workers, str):
        try:
            # Ray is an extra, and takes a second to import.
            from pv4fad.workers.ray_cluster import RayCluster  # noqa: PLC0415
        except ModuleNotFoundError:
            message = f"workers {workers}: Ray is not installed: pip install 'pv4fad[ray]'"
            raise ParameterError(message) from None
        return RayCluster(workers)
    n_workers = available_cores() if workers is None else workers
    return Processes(n_workers) if n_workers else None
