"""`pv4fad bench soak`: hub, banks and live service for an hour, with kill -9 every minute.

Everything is on loopback and started by this command; nothing else is touched.  It fails if

    lost        a payment got no decision, or one that the journal does not have or has differently,
                or another one when it was sent again
    wrong       a bank was asked and the answer is not that of its records
    not asked   less than 1 % of the payments were decided with a bank's answer; or, apart from
                those near a kill, more than 1 % without that of a bank that should be asked
    not again   no payment was sent again after it was answered
    not back    the service did not come back by itself within half a minute after a kill
    ended       a process ended that nobody had killed
    memory      a process grows: in the second half, from restart to restart, faster than what is
                kept of every payment explains; or it has risen far since it settled.  Judged in
                runs of half an hour or more
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from pv4fad.cli.console import err, fail, out
from pv4fad.cli.federation_demo import free_ports
from pv4fad.files import write_whole
from pv4fad.payments.schema import SCHEMA
from pv4fad.run.predictions import HOLDERS_ANSWER
from pv4fad_bench.live_world import SERVICE, LiveWorld
from pv4fad_bench.soak_load import Load, Sent, drawn
from pv4fad_bench.soak_processes import WORKER, Kill, Memory, Supervised

_BACK_WITHIN_S = 30.0
_READY_WITHIN_S = 300.0
_MEMORY_EVERY_S = 5.0
_SETTLED_S = 60.0
"""A process that has just started takes memory for what it loads."""
_JUDGED_FROM_MIN = 30
_MB_PER_HOUR, _MB_PER_PAYMENT = 40.0, 0.0005
_MB_RISEN = 150.0
"""Of one process: what it takes to merge and to snapshot what it knows stays with it."""
_DISTURBED_S = 10.0
"""After a killed process is back, until payments get the answers of all banks again for sure."""
_LEAST_ASKED, _MOST_WITHOUT = 0.01, 0.01
_PARTS = 12


def command(
    *,
    minutes: Annotated[float, typer.Option(min=1, help="How long payments come.")] = 60,
    every: Annotated[float, typer.Option(min=5, help="Seconds from one kill to the next.")] = 60,
    rate: Annotated[float, typer.Option(min=1, help="Payments per second.")] = 50,
    banks: Annotated[int, typer.Option(min=3, help="How many banks take part.")] = 3,
    transactions: Annotated[int, typer.Option(min=2000, help="Of training.")] = 40_000,
    accounts: Annotated[int, typer.Option(min=1000, help="Of all banks.")] = 40_000,
    seed: Annotated[int, typer.Option(help="Of arrivals and kills.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write it all.")] = None,
    logs: Annotated[
        Path | None, typer.Option(help="A folder for the logs of the processes.")
    ] = None,
) -> None:
    """Judge payments for an hour while processes are killed; fails if anything is lost or wrong."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="pv4fad-soak-") as name:
        err.print(f"training with {banks} banks ...")
        world = LiveWorld(Path(name), transactions=transactions, banks=banks, accounts=accounts)
        (port,) = free_ports(1)
        with Supervised(world, port) as processes:
            load = Load(port, world.token)
            payments = drawn(world.payments, rate, minutes * 60, rng)
            kills = _planned(processes.victims, minutes * 60, every, rng)
            try:
                asyncio.run(_soak(processes, load, payments, kills))
            finally:
                _keep_logs(world.root, logs)
        found = _Found(minutes, rate, load, processes, faults_of(world, load, processes, minutes))
    _print(found)
    if json_file is not None:
        write_whole(json_file, json.dumps(found.document(), indent=1) + "\n")
    if found.faults:
        fail(f"the soak failed: {'; '.join(found.faults[:10])}", 1)
    out.print("Nothing was lost, nothing was wrong, and everything came back by itself.")


def _keep_logs(root: Path, folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for log in root.glob("*.log"):
            shutil.copy(log, folder)


async def _soak(
    processes: Supervised, load: Load, payments: Iterator[Sent], kills: list[tuple[float, str]]
) -> None:
    keeping = asyncio.create_task(processes.keep())
    try:
        async with asyncio.timeout(_READY_WITHIN_S):
            while not await asyncio.to_thread(processes.running.is_ready):
                await asyncio.sleep(0.5)
        processes.begin()
        others = [
            asyncio.create_task(_kill_all(processes, kills)),
            asyncio.create_task(_watch(processes, load)),
        ]
        try:
            await load.send(payments)
        finally:
            for task in others:
                task.cancel()
            for one in await asyncio.gather(*others, return_exceptions=True):
                if isinstance(one, Exception):
                    processes.faults.append(f"the soak itself: {type(one).__name__}: {one}")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def _planned(
    victims: list[str], seconds: float, every_s: float, rng: np.random.Generator
) -> list[tuple[float, str]]:
    """When to kill whom: each once in random order, then again; the last early enough."""
    times = np.arange(every_s / 2, seconds - min(every_s / 2, _BACK_WITHIN_S), every_s)
    order = [
        str(one) for _ in range(0, len(times), len(victims)) for one in rng.permutation(victims)
    ]
    return list(zip(times.tolist(), order, strict=False))


async def _kill_all(processes: Supervised, kills: list[tuple[float, str]]) -> None:
    for at_s, victim in kills:
        await asyncio.sleep(max(0.0, at_s - processes.now_s()))
        with suppress(TimeoutError):
            async with asyncio.timeout(_BACK_WITHIN_S):
                await processes.kill(victim)


async def _watch(processes: Supervised, load: Load) -> None:
    """Memory, and what the metrics say; a line for whoever looks on."""
    number = 0
    while True:
        processes.look_at_memory()
        await processes.replies()
        if number % 12 == 11:
            err.print(
                f"{processes.now_s():.0f} s: {len(load.sent):,} payments,"
                f" {len(processes.kills)} kills{_latest(processes.kills)}"
            )
        number += 1
        await asyncio.sleep(_MEMORY_EVERY_S)


def _latest(kills: list[Kill]) -> str:
    if not kills:
        return ""
    back = kills[-1].back_s
    then = "not back" if back is None else f"back in {back:.1f} s"
    return f", the last of {kills[-1].victim}, {then}"


def faults_of(world: LiveWorld, load: Load, processes: Supervised, minutes: float) -> list[str]:
    """What must not be, in words."""
    journal, words = world.journal(), SCHEMA.words(HOLDERS_ANSWER)
    faults = Counter[str](processes.faults)
    for one in load.sent:
        if one.fault:
            faults[one.fault] += 1
        elif one.answer is None:
            faults["no decision"] += 1
        elif journal.get(one.id) != one.text:
            faults["an answered decision is not in the journal"] += 1
        elif _how(one) == "banks asked":
            by_bank = words in one.answer["reasons"]
            faults["wrong"] += bool(by_bank != world.payments.positive[one.row])
    faults.update(_of_checks(load, processes.kills))
    faults["decisions about payments that nobody sent"] += len(
        journal.keys() - {one.id for one in load.sent}
    )
    for kill in processes.kills:
        if kill.back_s is None or kill.back_s > _BACK_WITHIN_S:
            faults[f"not back after {kill.victim} was killed"] += 1
    if minutes >= _JUDGED_FROM_MIN:
        faults.update(_of_memory(processes, minutes, len(load.sent)))
    return [f"{n:,} × {what}" for what, n in faults.items() if n]


def _of_checks(load: Load, kills: list[Kill]) -> Iterator[str]:
    """A soak that has hardly compared anything shows nothing."""
    answered = [one for one in load.sent if one.answer is not None]
    asked = sum(_how(one) == "banks asked" for one in answered)
    if asked < _LEAST_ASKED * len(load.sent):
        yield f"banks were hardly asked: {asked:,} payments were decided with their answers"
    calm = [one for one in answered if not _disturbed(one, kills)]
    without = sum(_how(one) not in ("banks asked", "local only") for one in calm)
    if without > _MOST_WITHOUT * len(calm):
        yield f"{without:,} of {len(calm):,} payments far from a kill were decided without a bank"
    if not load.n_once_more:
        yield "no payment was sent once more"


def _how(one: Sent) -> str:
    return "" if one.answer is None else one.answer["decided"]


def _disturbed(one: Sent, kills: list[Kill]) -> bool:
    """Whether something had been killed shortly before, or was killed just then."""
    return any(-1 <= one.due_s - k.at_s < (k.back_s or 0.0) + _DISTURBED_S for k in kills)


def _of_memory(processes: Supervised, minutes: float, n_payments: int) -> Iterator[str]:
    for kind, growth in growths(processes, minutes * 60).items():
        allowed = _MB_PER_HOUR
        if kind == SERVICE:
            allowed += _MB_PER_PAYMENT * n_payments * 60 / minutes
        if growth is not None and growth > allowed:
            yield f"{kind} grows by {growth:.0f} MB an hour"
    for process, mb in rises(processes.memory).items():
        if mb > _MB_RISEN:
            yield f"{process} has risen by {mb:.0f} MB"


def growths(processes: Supervised, seconds: float) -> dict[str, float | None]:
    """MB an hour in the second half, by kind of process; None: it was never up for long enough."""
    kinds = dict.fromkeys(processes.kind(one.process) for one in processes.memory)
    return {
        kind: growth(
            [one for one in processes.memory if processes.kind(one.process) == kind], seconds / 2
        )
        for kind in kinds
    }


def growth(memory: list[Memory], since_s: float) -> float | None:
    """The slope that all processes of a kind have in common, each from a level of its own.

    One that was killed and started again is the same: within its short life it rises until it has
    merged and stored everything once, and that says nothing about the next hour.
    """
    above, below = 0.0, 0.0
    settled = [one for life in _lives(memory) for one in life if one.at_s >= since_s]
    for process in {one.process for one in settled}:
        mine = [one for one in settled if one.process == process]
        if len(mine) > 2:
            times, mb = np.array([(one.at_s, one.mb) for one in mine]).T
            centred = times - times.mean()
            above += float(centred @ (mb - mb.mean()))
            below += float(centred @ centred)
    return above / below * 3600 if below else None


def rises(memory: list[Memory]) -> dict[str, float]:
    """By process: how far it has risen at most, in one life, since it settled."""
    found: dict[str, float] = {}
    for life in _lives(memory):
        risen = max(one.mb for one in life) - life[0].mb
        found[life[0].process] = max(risen, found.get(life[0].process, 0.0))
    return found


def _lives(memory: list[Memory]) -> Iterator[list[Memory]]:
    """What each process took after it had settled."""
    for pid in dict.fromkeys(one.pid for one in memory):
        mine = [one for one in memory if one.pid == pid]
        if late := [one for one in mine if one.at_s >= mine[0].at_s + _SETTLED_S]:
            yield late


@dataclass(frozen=True)
class _Found:
    minutes: float
    rate: float
    load: Load
    processes: Supervised
    faults: list[str]

    def parts(self) -> list[dict[str, Any]]:
        """The payments of each part of the time."""
        ends = np.linspace(0, self.minutes * 60, _PARTS + 1)[1:]
        of_part = np.searchsorted(ends, [one.due_s for one in self.load.sent])
        parts = []
        for number, end in enumerate(ends):
            mine = [
                one for one, part in zip(self.load.sent, of_part, strict=True) if part == number
            ]
            answered = [one for one in mine if one.answer is not None]
            calm = [one for one in answered if not _disturbed(one, self.processes.kills)]
            hows = Counter(map(_how, answered))
            parts.append(
                {
                    "until_s": round(float(end)),
                    "payments": len(mine),
                    "ms": _quantiles(answered),
                    "ms_undisturbed": _quantiles(calm),
                    "banks_asked": hows["banks asked"],
                    "bank_not_answering": hows["bank not answering"],
                    "sent_again": sum(one.tries > 1 for one in mine),
                }
            )
        return parts

    def kills(self) -> dict[str, list[Kill]]:
        by_kind: dict[str, list[Kill]] = {}
        for kill in self.processes.kills:
            by_kind.setdefault(self.processes.kind(kill.victim), []).append(kill)
        return by_kind

    def document(self) -> dict[str, Any]:
        hows = Counter(_how(one) for one in self.load.sent if one.answer is not None)
        return {
            "minutes": self.minutes,
            "rate": self.rate,
            "payments": len(self.load.sent),
            "sent_once_more": self.load.n_once_more,
            "decided": dict(hows),
            "faults": self.faults,
            "missed_ticks": dict(self.processes.missed),
            "parts": self.parts(),
            "kills": [asdict(kill) for kill in self.processes.kills],
            "mb_per_hour": growths(self.processes, self.minutes * 60),
            "memory": [asdict(one) for one in self.processes.memory],
        }


def _quantiles(payments: list[Sent]) -> list[int] | None:
    """p50, p95 and p99 in milliseconds."""
    if not payments:
        return None
    seconds = [one.seconds for one in payments]
    return [round(1000 * float(np.quantile(seconds, q))) for q in (0.5, 0.95, 0.99)]


def _print(found: _Found) -> None:
    sent, processes = found.load.sent, found.processes
    title = f"{len(sent):,} payments, {found.rate:g} per s, {len(processes.kills)} kills"
    times = Table(title=title)
    for column in (
        *("until s", "payments", "p50/p95/p99 ms", "undisturbed", "banks asked"),
        *("no answer", "sent again"),
    ):
        times.add_column(column, justify="right")
    for part in found.parts():
        ms, calm = (
            "-" if part[one] is None else "/".join(map(str, part[one]))
            for one in ("ms", "ms_undisturbed")
        )
        counts = ("banks_asked", "bank_not_answering", "sent_again")
        row = (f"{part['until_s']}", f"{part['payments']:,}", ms, calm)
        times.add_row(*row, *(f"{part[one]:,}" for one in counts))
    out.print(times)
    back = Table("process", title="back after kill -9, and memory")
    for column in ("kills", "s median", "s most", "MB most", "MB an hour"):
        back.add_column(column, justify="right")
    kills, grown = found.kills(), growths(processes, found.minutes * 60)
    for kind in (SERVICE, WORKER, "bank", "hub"):
        mine = kills.get(kind, [])
        took = [kill.back_s for kill in mine if kill.back_s is not None]
        mb = [one.mb for one in processes.memory if processes.kind(one.process) == kind]
        growth_ = grown.get(kind)
        back.add_row(
            *(kind, str(len(mine))),
            *((f"{np.median(took):.1f}", f"{max(took):.1f}") if took else ("-", "-")),
            *(f"{max(mb):.0f}", "-" if growth_ is None else f"{growth_:+.0f}"),
        )
    out.print(back)
    out.print(
        f"{found.load.n_once_more:,} sent once more; ticks at which a bank was sent nothing:"
        f" {sum(processes.missed.values()):,}"
    )
