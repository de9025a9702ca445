"""A command in a process of its own, and what it took.

CPU seconds are those of the command and of all processes that it waited for.  Memory is the
largest resident size of any one of its processes; the system keeps it for each, and it is looked
at several times a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from pv4fad.errors import WorkerError

_LOOK_EVERY_S = 0.2
_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Step:
    """What one command took."""

    name: str
    wall_s: float
    cpu_s: float
    peak_bytes: int
    printed: str


def run_step(name: str, arguments: Sequence[object]) -> Step:
    """`pv4fad` with these arguments; `WorkerError` if it fails, with what it says."""
    command = [sys.executable, "-m", "pv4fad", *map(str, arguments)]
    start = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            with _Watch(process.pid) as watch:
                # Read to its end before the process is waited for: a full pipe would stop it.
                printed = process.stdout.read() if process.stdout else ""
                _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - start
    if process.returncode:
        last = (printed.strip().splitlines() or ["it said nothing"])[-1]
        raise WorkerError(f"pv4fad {name} failed: {last.removeprefix('error: ')}")
    return Step(name, wall_s, used.ru_utime + used.ru_stime, watch.peak_bytes, printed)


class _Watch:
    """Looks at a process and its descendants until it ends."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            peaks = [_peak_bytes(pid) for pid in _family(self._pid)]
            self.peak_bytes = max([self.peak_bytes, *peaks])


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError, ValueError):  # it may have ended
            # "pid (name) state parent ...", and a name may hold anything.
            after_name = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            parent = int(after_name.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    family = [pid]
    for member in family:
        family += children.get(member, [])
    return family


def _peak_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in (_PROCESSES / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
