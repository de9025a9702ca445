"""What jobs use: CPU seconds and memory, by worker."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass
class Usage:
    """What the workers have used so far, by the name of the worker."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, done: Done[Result]) -> None:
        with self._lock:
            self.cpu_s[done.worker] = self.cpu_s.get(done.worker, 0.0) + done.cpu_s
            self.peak_bytes[done.worker] = done.peak_bytes


@dataclass(frozen=True)
class Done(Generic[Result]):
    """The result of a job, and what its worker has used for it."""

    result: Result = field(repr=False)
    worker: str
    cpu_s: float
    peak_bytes: int


def measured(function: Callable[[Job], Result], job: Job) -> Done[Result]:
    """function(job), in a worker."""
    start = time.process_time()
    result = function(job)
    worker = f"{os.uname().nodename}/{os.getpid()}"
    return Done(result, worker, time.process_time() - start, peak_memory_bytes())


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
