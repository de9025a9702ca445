"""What all benchmarks share: phases, worker processes that report, traffic, and one report.

phase    a stretch of a run with a name: wall seconds, and CPU seconds of all processes
traffic  the messages of one kind from one party to another, as encoded bytes
check    a claim about the result, compared with the plain truth
"""

from __future__ import annotations

import gc
import platform
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock, local
from typing import Any, Protocol, TypeVar

from pv4fad import __version__
from pv4fad.he.ring import Ring, RingParameters
from pv4fad.parties.party import Party
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Header
from pv4fad.workers import Usage, WorkerPool, Workers, available_cores, peak_memory_bytes
from pv4fad.workers.usage import Done
from pv4fad_bench.operations import Clocked, ClockedJob, Spent, clocked

Job = TypeVar("Job")
Result = TypeVar("Result")
_LONG_ENOUGH_S = 0.3  # that no worker takes the job of another
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
        self.spent: dict[tuple[str, str], Spent] = {}
        self.end_before: Callable[..., Any] | None = None
        self._phase_of = dict(phase_of or {})
        self._between = between
        self._tapping = Lock()

    def start_workers(self, parameters: RunParameters) -> None:
        """What every worker does once, off the clock: it imports, and builds the rings."""
        rings = (*parameters.network_rings.values(), parameters.share_ring)
        list(WorkerPool.map(self, _build_rings, [rings] * max(1, self.n_workers)))

    def restart_clock(self) -> None:
        """What was done so far does not count."""
        self.stopwatch = Stopwatch(self.usage)
        self.spent = {}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All HE operations of the jobs so far, the costliest first."""
        done = [Operation(*name, one.count, one.seconds) for name, one in self.spent.items()]
        return tuple(sorted(done, key=lambda one: -one.total_s))

    def floor_s(self, *jobs: str) -> float:
        """What HE operations alone would take all workers; of some jobs, or of all."""
        wanted = [one.total_s for one in self.operations if not jobs or one.job in jobs]
        return sum(wanted) / max(1, self.n_workers)

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As of `WorkerPool`, on the clock."""
        if function is self.end_before:
            raise Complete
        drawn: deque[Job] = deque()
        results = super().map(clocked, _on_the_clock(function, jobs, drawn))
        return self._timed(function, drawn, results)

    def begin(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """As of `WorkerPool`, on the clock."""
        drawn: deque[Job] = deque()
        results = super().begin(clocked, _on_the_clock(function, jobs, drawn))
        return self._timed(function, drawn, results)

    def _timed(
        self,
        function: Callable[[Job], Result],
        drawn: deque[Job],
        results: Iterator[Clocked[Result]],
    ) -> Iterator[Result]:
        tap = self.taps.get(function)
        while True:
            if function in self._phase_of:
                self.stopwatch.switch(self._phase_of[function])
            try:
                done = next(results)
            except StopIteration:
                return
            finally:
                if self._between is not None:
                    self.stopwatch.switch(self._between)
            job = drawn.popleft()
            with self._tapping:
                self._add(function, done.spent)
                if tap is not None:
                    tap(job, done.result)
            yield done.result

    def _add(self, function: Callable[..., Any], spent: Mapping[str, Spent]) -> None:
        job = self._phase_of.get(function, job_name(function))
        for name, one in spent.items():
            total = self.spent.setdefault((job, name), Spent())
            total.count += one.count
            total.seconds += one.seconds


def _build_rings(rings: Sequence[RingParameters]) -> None:
    for one in rings:
        Ring.of(one)
    time.sleep(_LONG_ENOUGH_S)


def job_name(function: Callable[..., Any]) -> str:
    """What a kind of job is called where it has no phase of its own."""
    return function.__name__.replace("_", " ")


def _on_the_clock(
    function: Callable[[Job], Result], jobs: Iterable[Job], drawn: deque[Job]
) -> Iterator[ClockedJob[Job, Result]]:
    for job in jobs:
        drawn.append(job)
        yield ClockedJob(function, job)


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
    """One kind of HE operation of a kind of job: how often, and the seconds of all together."""

    job: str
    name: str
    count: int
    total_s: float


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
    """The peak of this process counts from here, where the system can do that.

    Without what is left of an earlier job: parties refer to each other.
    """
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(usage: Usage) -> dict[str, int]:
    """The largest resident size of each process: the parties' own, and each worker."""
    workers = sorted(usage.peak_bytes.values(), reverse=True)
    return {
        "parties": peak_memory_bytes(),
        **{f"worker {number}": peak for number, peak in enumerate(workers, 1)},
    }
