"""`pv4fad bench live`: from the HTTP request to the decision, with banks, hub and service.

Every party is a process of its own on this machine; all of them share its cores with the client,
which sends payments at drawn times whatever the service does (`live_load`).  CPU is in cores.

    all ask      a model to which every answer matters, and payments of which each has an account
                 that has not been asked about: all of them wait for a bank
    as trained   the model that was trained, and payments as they came: few of them ask

A payment is *wrong* if a bank was asked and the answer is not that of its records; then the command
fails.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from pv4fad.cli.console import err, fail, out
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.run.predictions import HOLDERS_ANSWER
from pv4fad_bench.deployed import tree_cpu_s
from pv4fad_bench.live_load import Answered, send_all
from pv4fad_bench.live_world import SERVICE, LiveWorld, Payments, Running

_WARM_UP = 50


def command(
    *,
    rates: Annotated[str, typer.Option(help="Payments per second, separated by commas.")] = (
        "10,100,500,1000"
    ),
    banks: Annotated[int, typer.Option(min=2, help="How many banks take part.")] = 3,
    ticks: Annotated[
        str, typer.Option(help="Milliseconds, separated by commas; 0: as the service chooses.")
    ] = "0",
    seconds: Annotated[float, typer.Option(min=1, help="How long payments come, each time.")] = 10,
    transactions: Annotated[int, typer.Option(min=2000, help="Of training.")] = 40_000,
    accounts: Annotated[int, typer.Option(min=1000, help="Of all banks.")] = 40_000,
    as_trained: Annotated[bool, typer.Option(help="Also with the model as it was trained.")] = True,
) -> None:
    """Judge payments live with banks, hub and service as processes, and measure the time."""
    with tempfile.TemporaryDirectory(prefix="pv4fad-bench-") as name:
        err.print(f"training with {banks} banks ...")
        world = LiveWorld(Path(name), transactions=transactions, banks=banks, accounts=accounts)
        table = Table(title=f"{accounts:,} accounts, {banks} banks, {seconds:g} s each")
        for column in (
            *(
                "model",
                "tick",
                "per s",
                "payments",
                "p50/p95/p99 ms",
                "asked",
                "no answer",
                "wrong",
            ),
            *("CPU service", "workers", "hub", "banks", "kB each"),
        ):
            table.add_column(column, justify="right")
        wanted, n_wrong = [float(one) for one in rates.split(",")], 0
        for tick in (int(one) for one in ticks.split(",")):
            world.set_tick(tick or None)
            for every in (True, False)[: 1 + as_trained]:
                n_wrong += _measure(world, table, tick, wanted, seconds, every=every)
        out.print(table)
    if n_wrong:
        fail(f"{n_wrong:,} payments were decided with an answer that no bank's record gives", 1)


def _measure(
    world: LiveWorld, table: Table, tick: int, rates: list[float], seconds: float, *, every: bool
) -> int:
    """One row for each rate; how many payments were decided wrongly."""
    payments, n_wrong = world.payments, 0
    rows = payments.first_dealings() if every else np.arange(len(payments.rows))
    with world.running(every_payment_asks=every) as running:
        token, port = world.token, running.port
        warm, rows = rows[:_WARM_UP], rows[_WARM_UP:]
        send_all(port, token, payments.bodies(warm, "-warm"), 50, 1)
        for number, rate in enumerate(rates):
            n = min(int(rate * seconds), len(rows))
            some, rows = rows[:n], rows[n:]
            if n < _WARM_UP:
                err.print(f"{rate:g} per second: too few accounts left")
                continue
            bodies = payments.bodies(some, f"-{number}")
            before, cpu, begun = running.of("pv4fad_live_bytes"), _cpu(running), time.monotonic()
            found = send_all(port, token, bodies, rate, number)
            passed = time.monotonic() - begun
            used = {one: (_cpu(running)[one] - cpu[one]) / passed for one in cpu}
            kb = (running.of("pv4fad_live_bytes") - before) / n / 1000
            hows = Counter(one["decided"] for one in found.answers)
            wrong = _n_wrong(found, payments, some) if every else 0
            n_wrong += wrong
            p50, p95, p99 = (1000 * np.quantile(found.seconds, q) for q in (0.5, 0.95, 0.99))
            table.add_row(
                "all ask" if every else "as trained",
                str(tick or "default"),
                f"{rate:g}",
                f"{n:,}",
                f"{p50:.0f}/{p95:.0f}/{p99:.0f}",
                f"{hows['banks asked']:,}",
                f"{hows['bank not answering']:,}",
                f"{wrong:,}" if every else "-",
                *(f"{one:.2f}" for one in used.values()),
                f"{kb:.1f}",
            )
            err.print(f"{rate:g}/s: p50 {p50:.0f} p95 {p95:.0f} p99 {p99:.0f} ms, {dict(hows)}")
    return n_wrong


def _n_wrong(found: Answered, payments: Payments, rows: NDArray[np.int64]) -> int:
    answer = SCHEMA.words(HOLDERS_ANSWER)
    asked = np.array([one["decided"] == "banks asked" for one in found.answers])
    says = np.array([answer in one["reasons"] for one in found.answers])
    return int((asked & (says != payments.positive[rows])).sum())


def _cpu(running: Running) -> dict[str, float]:
    """CPU seconds so far."""
    pids = running.pids
    service = tree_cpu_s(pids[SERVICE], with_children=False)
    banks = [pid for name, pid in pids.items() if name not in (SERVICE, AGGREGATOR)]
    return {
        "service": service,
        "workers": tree_cpu_s(pids[SERVICE]) - service,
        "hub": tree_cpu_s(pids[AGGREGATOR]),
        "banks": sum(map(tree_cpu_s, banks)),
    }
