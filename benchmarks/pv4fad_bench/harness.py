"""What all benchmarks share: phases, worker processes that report, traffic, and one report.

phase    a stretch of a run with a name: wall seconds, and CPU seconds of all processes
traffic  the messages of one kind from one party to another, as encoded bytes
check    a claim about the result, compared with the plain truth
"""

from __future__ import annotations

import platform
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock, local
from typing import Any, Protocol, TypeVar

from pv4fad import __version__
from pv4fad.parties.party import Party
from pv4fad.protocol.wire import Header
from pv4fad.workers import Usage, WorkerPool, Workers, available_cores, peak_memory_bytes
from pv4fad.workers.usage import Done

Job = TypeVar("Job")
Result = TypeVar("Result")
Tap = Callable[[Any, Any], object]
"""Is told a job and its result."""


class Progress(Protocol):
    """Who waits for a benchmark."""

    def begin(self, expected_s: float, n_steps: int) -> None:
        """How long it is likely to take, and in how many steps."""

    def advance(self) -> None:
        """A step is done."""


@dataclass
class Phase:
    """What a phase has taken so far; CPU seconds are those of all processes."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


class Stopwatch:
    """One phase runs at a time; a phase that is entered again goes on where it was left."""

    def __init__(self, usage: Usage) -> None:
        self.phases: dict[str, Phase] = {}
        self._usage = usage
        self._running: str | None = None
        self._since = (0.0, 0.0)

    def switch(self, name: str | None) -> None:
        """End the running phase and begin `name`; None only ends."""
        now = (time.perf_counter(), time.process_time() + sum(self._usage.cpu_s.values()))
        if self._running is not None:
            phase = self.phases[self._running]
            phase.wall_s += now[0] - self._since[0]
            phase.cpu_s += now[1] - self._since[1]
        if name is not None:
            self.phases.setdefault(name, Phase())
        self._running, self._since = name, now

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Not part of any phase."""
        before = self._running
        self.switch(None)
        yield
        self.switch(before)

    @property
    def wall_s(self) -> float:
        """Of all phases together."""
        return sum(phase.wall_s for phase in self.phases.values())


class UsageByThread(Usage):
    """Knows besides what the jobs of each thread have used."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = local()

    def add(self, done: Done[Any]) -> None:
        """In the thread that put the job."""
        super().add(done)
        self._jobs.cpu_s = self._of_jobs() + done.cpu_s

    def cpu_of_thread(self) -> float:
        """CPU seconds of this thread and its jobs."""
        return time.thread_time() + self._of_jobs()

    def _of_jobs(self) -> float:
        return float(getattr(self._jobs, "cpu_s", 0.0))


class PartyClock:
    """CPU seconds of each party, its jobs with them; parties may work at the same time.

    A method that is watched stays in one thread, and calls no other that is watched.
    """

    def __init__(self, usage: UsageByThread) -> None:
        self.cpu_s: dict[str, float] = defaultdict(float)
        self._usage = usage
        self._lock = Lock()

    def watch(self, party: Party, *methods: str) -> None:
        """Count what these methods of a party use from now on."""
        for name in methods:
            setattr(party, name, self._timed(party.name, getattr(party, name)))

    def _timed(self, party: str, method: Callable[..., Result]) -> Callable[..., Result]:
        def timed(*arguments: Any, **named: Any) -> Result:
            before = self._usage.cpu_of_thread()
            try:
                return method(*arguments, **named)
            finally:
                with self._lock:
                    self.cpu_s[party] += self._usage.cpu_of_thread() - before

        return timed


class Complete(Exception):  # noqa: N818 - not an error: what was to be measured is over
    """A benchmark needs no more of the run."""


class MeasuredPool(WorkerPool):
    """A pool that switches the stopwatch: to the phase of a kind of job while it waits for results.

    `phase_of` names the phases; a kind of job without one stays in the phase that is running.
    Afterwards the phase `between` begins, or, without one, the phase goes on.  Phases are right
    where one party works at a time.  `taps` are told each job with its result, one at a time:
    benchmarks count and check with them.  A job of the kind `end_before` is not run: it raises
    `Complete`, and the rest of the run is left out.
    """

    def __init__(
        self,
        workers: Workers,
        phase_of: Mapping[Callable[..., Any], str] | None = None,
        between: str | None = None,
    ) -> None:
        super().__init__(workers)
        self.usage: UsageByThread = UsageByThread()
        self.stopwatch = Stopwatch(self.usage)
        self.taps: dict[Callable[..., Any], Tap] = {}
        self.end_before: Callable[..., Any] | None = None
        self._phase_of = dict(phase_of or {})
        self._between = between
        self._tapping = Lock()

    def restart_clock(self) -> None:
        """What was done so far does not count."""
        self.stopwatch = Stopwatch(self.usage)

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As of `WorkerPool`, on the clock."""
        if function is self.end_before:
            raise Complete
        drawn: deque[Job] = deque()
        return self._timed(function, drawn, super().map(function, _remembered(jobs, drawn)))

    def begin(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As of `WorkerPool`, on the clock."""
        drawn: deque[Job] = deque()
        return self._timed(function, drawn, super().begin(function, _remembered(jobs, drawn)))

    def _timed(
        self, function: Callable[[Job], Result], drawn: deque[Job], results: Iterator[Result]
    ) -> Iterator[Result]:
        tap = self.taps.get(function)
        while True:
            if function in self._phase_of:
                self.stopwatch.switch(self._phase_of[function])
            try:
                result = next(results)
            except StopIteration:
                return
            finally:
                if self._between is not None:
                    self.stopwatch.switch(self._between)
            job = drawn.popleft()
            if tap is not None:
                with self._tapping:
                    tap(job, result)
            yield result


def _remembered(jobs: Iterable[Job], drawn: deque[Job]) -> Iterator[Job]:
    for job in jobs:
        drawn.append(job)
        yield job


@dataclass(frozen=True)
class Traffic:
    """All messages of one kind from one party to another."""

    kind: str
    sender: str
    receiver: str
    n_messages: int
    n_bytes: int


class TrafficMeter:
    """Counts messages; an observer of the transport."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], tuple[int, int]] = {}

    def __call__(self, message: Header, n_bytes: int) -> None:
        key = (message.kind, message.address.sender, message.address.receiver)
        n, total = self._seen.get(key, (0, 0))
        self._seen[key] = (n + 1, total + n_bytes)

    def n_bytes(self, kind: str) -> int:
        """Of all messages of a kind."""
        return sum(n for (one, *_), (_, n) in self._seen.items() if one == kind)

    def traffic(self) -> tuple[Traffic, ...]:
        """What has been sent so far."""
        return tuple(Traffic(*key, *counted) for key, counted in self._seen.items())


@dataclass(frozen=True)
class Operation:
    """One kind of HE operation: how often it was done, and what one takes in a busy process."""

    name: str
    count: int
    unit_s: float

    @property
    def total_s(self) -> float:
        return self.count * self.unit_s


@dataclass(frozen=True)
class BenchReport:
    """What a benchmark found out."""

    benchmark: str
    workload: dict[str, Any]
    phases: dict[str, Phase]
    traffic: tuple[Traffic, ...]
    checks: dict[str, bool]
    figures: dict[str, Any]
    peak_bytes: dict[str, int]
    operations: tuple[Operation, ...] = ()
    machine: dict[str, Any] = field(default_factory=lambda: dict(this_machine()))

    @property
    def wall_s(self) -> float:
        return sum(phase.wall_s for phase in self.phases.values())

    @property
    def passed(self) -> bool:
        return all(self.checks.values())

    def document(self) -> dict[str, Any]:
        """For a JSON file."""
        return {"pv4fad": __version__, "wall_s": self.wall_s, **asdict(self)}


def this_machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "cores": available_cores(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def forget_peak_memory() -> None:
    """The peak of this process counts from here, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(usage: Usage) -> dict[str, int]:
    """The largest resident size of each process: the parties' own, and each worker."""
    workers = sorted(usage.peak_bytes.values(), reverse=True)
    return {
        "parties": peak_memory_bytes(),
        **{f"worker {number}": peak for number, peak in enumerate(workers, 1)},
    }
