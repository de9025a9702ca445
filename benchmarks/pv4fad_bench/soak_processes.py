"""The processes of `pv4fad bench soak`: killed at random, started again, and watched.

Only processes that it has started are killed, and the workers of its own service.  Whatever ends is
started again, as systemd would; what ends without having been killed is a fault.

A process that was killed is *back* when every bank answers queries at half of the ticks or more,
measured over half a second that begins then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pv4fad.protocol.live.plan import default_tick_ms
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad_bench.live_world import SERVICE, LiveWorld, Running

WORKER = "worker"
_AGAIN_AFTER_S = 0.1
_WINDOW_S = 0.5
_LOOK_S = 0.1
_END_WITHIN_S = 30.0


@dataclass
class Kill:
    """Of one process."""

    victim: str
    at_s: float
    back_s: float | None = None
    """After this time; None: not before the next kill, or the end."""


@dataclass(frozen=True)
class Memory:
    """What a process takes at some moment."""

    process: str
    pid: int
    at_s: float
    mb: float


@dataclass
class Supervised:
    """Hub, banks and service, inside `with`."""

    world: LiveWorld
    port: int
    kills: list[Kill] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    """Ticks without a query, by bank: those of all services that there were."""

    def __enter__(self) -> Self:
        self._commands = self.world.commands(self.port)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[int] = set()
        self._counted = Counter[str]()
        self.begun = time.monotonic()
        for name, words in self._commands.items():
            self._processes[name] = self.world.start(name, words)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def begin(self) -> None:
        """Time counts from now on."""
        self.begun = time.monotonic()

    @property
    def running(self) -> Running:
        pids = {name: process.pid for name, process in self._processes.items()}
        return Running(pids, self.port, self.world)

    @property
    def victims(self) -> list[str]:
        return [*self._processes, WORKER]

    def now_s(self) -> float:
        return time.monotonic() - self.begun

    async def keep(self) -> None:
        """Start again what has ended, until cancelled."""
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    if process.pid not in self._killed:
                        self.faults.append(f"{name} ended by itself with {process.returncode}")
                    await asyncio.sleep(_AGAIN_AFTER_S)
                    self._processes[name] = self.world.start(name, self._commands[name])
            await asyncio.sleep(_LOOK_S)

    async def kill(self, victim: str) -> None:
        """kill -9; returns when it is back."""
        pid = self._processes[SERVICE if victim == WORKER else victim].pid
        if victim == WORKER:
            workers = list(_workers_of(pid))
            if not workers:
                self.faults.append("the service has no workers")
                return
            pid = workers[len(self.kills) % len(workers)]
        kill = Kill(victim, self.now_s())
        self.kills.append(kill)
        self._killed.add(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        kill.back_s = await self._back(kill.at_s) - kill.at_s

    async def _back(self, since_s: float) -> float:
        """When all banks answer again."""
        tick_s = default_tick_ms(len(self.world.banks)) / 1000
        enough = _WINDOW_S / tick_s / 2
        seen: list[tuple[float, dict[str, float]]] = []
        while True:
            await asyncio.sleep(_LOOK_S)
            at, replies = self.now_s(), await self.replies()
            if replies is None:
                seen.clear()
                continue
            seen.append((at, replies))
            while seen and seen[0][0] < max(since_s, at - 2 * _WINDOW_S):
                seen.pop(0)
            for begun, before in seen:
                if at - begun >= _WINDOW_S and all(
                    replies[bank] - before.get(bank, 0) >= enough * (at - begun) / _WINDOW_S
                    for bank in self.world.banks
                ):
                    return begun

    async def replies(self) -> dict[str, float] | None:
        """Of each bank so far; None if the service does not say."""
        try:
            found = await asyncio.to_thread(self.running.metrics)
        except OSError:
            return None
        by_bank = {bank: f'{{bank="{bank}"}}' for bank in self.world.banks}
        for bank, label in by_bank.items():
            missed = int(found.get(f"pv4fad_live_missed_total{label}", 0))
            before = self._counted[bank]
            self.missed[bank] += missed - before if missed >= before else missed
            self._counted[bank] = missed
        replies = {
            bank: found.get(f"pv4fad_live_replies_total{label}") for bank, label in by_bank.items()
        }
        return {bank: n for bank, n in replies.items() if n is not None} or None

    def look_at_memory(self) -> None:
        """Of all processes, now."""
        pids = [(name, process.pid) for name, process in self._processes.items()]
        pids += [(WORKER, pid) for pid in _workers_of(self._processes[SERVICE].pid)]
        for name, pid in pids:
            with suppress(OSError, ValueError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                mb = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
                self.memory.append(Memory(name, pid, self.now_s(), mb))

    def kind(self, process: str) -> str:
        """What a process is: a bank is one of several."""
        return {AGGREGATOR: "hub", SERVICE: SERVICE, WORKER: WORKER}.get(process, "bank")


def _workers_of(service: int) -> Iterator[int]:
    with suppress(OSError):
        for file in Path(f"/proc/{service}/task").glob("*/children"):
            for pid in map(int, file.read_text().split()):
                with suppress(OSError):
                    if b"asking.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        yield pid
