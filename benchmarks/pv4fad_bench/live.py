"""`pv4fad bench live`: from the HTTP request to the decision, with banks, hub and service.

Every party is a process of its own on this machine; all of them share its cores with the client,
which sends payments at drawn times whatever the service does (`live_load`).  The model is one to
which every answer of a bank matters.  A payment is

    new      it has an account that nobody has asked about before: it waits for a bank
    known    what banks say about its accounts is known from earlier payments: it asks nothing
    wrong    it was decided with an answer of a bank that is not that of the bank's records; then
             the command fails

The service starts anew for every row, with an empty journal, so that all accounts are new to it.
CPU is in cores.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from pv4fad.cli.console import err, fail, out
from pv4fad.files import write_whole
from pv4fad.protocol.live.plan import default_tick_ms
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad_bench.deployed import tree_cpu_s
from pv4fad_bench.live_load import send_all
from pv4fad_bench.live_rows import COLUMNS, Load, Part, Row, n_wrong, row_of
from pv4fad_bench.live_world import SERVICE, LiveWorld, Payments, Running

_WARM_UP, _WARM_UP_PER_S = 500, 250
_START_S = 10.0
"""Until a service takes payments, roughly."""


def command(
    *,
    rates: Annotated[str, typer.Option(help="Payments per second, separated by commas.")] = (
        "10,100,500,1000,2000"
    ),
    banks: Annotated[str, typer.Option(help="How many take part, separated by commas.")] = "3,25",
    ticks: Annotated[
        str, typer.Option(help="Milliseconds, separated by commas; 0: as the service chooses.")
    ] = "0",
    known: Annotated[
        str, typer.Option(help="Shares of payments that ask nothing, separated by commas.")
    ] = "0,0.9",
    seconds: Annotated[
        float, typer.Option(min=1, help="How long payments come, each time; 100 at least.")
    ] = 6,
    repeat: Annotated[int, typer.Option(min=1, help="How often; a row has all of them.")] = 1,
    transactions: Annotated[int, typer.Option(min=2000, help="Of training.")] = 100_000,
    accounts: Annotated[int, typer.Option(min=1000, help="Of all banks.")] = 100_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write it all.")] = None,
) -> None:
    """Judge payments live with banks, hub and service as processes, and measure the time."""
    loads = [
        Load(n_banks, int(tick) or default_tick_ms(n_banks), share, rate, seconds)
        for n_banks in map(int, _numbers(banks))
        for tick in _numbers(ticks)
        for share in _numbers(known)
        for rate in _numbers(rates)
    ]
    err.print(
        f"{len(loads)} rows: about {_minutes(loads, repeat, transactions):.0f} minutes on two idle"
        " cores"
    )
    rows: list[Row] = []
    _print(COLUMNS)
    for row in _rows(loads, repeat, transactions, accounts):
        _print(row.cells())
        rows.append(row)
        if json_file is not None:
            write_whole(json_file, json.dumps([asdict(one) for one in rows], indent=1) + "\n")
    if n_wrong := sum(row.wrong for row in rows):
        fail(f"{n_wrong:,} payments were decided with an answer that no bank's record gives", 1)


def _rows(loads: Sequence[Load], repeat: int, transactions: int, accounts: int) -> Iterator[Row]:
    for n_banks in dict.fromkeys(load.banks for load in loads):
        err.print(f"training with {n_banks} banks ...")
        with tempfile.TemporaryDirectory(prefix="pv4fad-bench-") as name:
            world = LiveWorld(
                Path(name), transactions=transactions, banks=n_banks, accounts=accounts
            )
            with world.federation() as federation:
                for load in loads:
                    if load.banks == n_banks:
                        world.set_tick(load.tick_ms)
                        parts = [_measure(world, federation, load, i) for i in range(repeat)]
                        yield row_of(load, parts)


def _measure(world: LiveWorld, federation: dict[str, int], load: Load, number: int) -> Part:
    payments, rng = world.payments, np.random.default_rng(number)
    first = payments.first_dealings()
    n_warm = min(_WARM_UP, len(first) // 4)
    warm, first = first[:n_warm], first[n_warm:]
    with world.service(federation) as running:
        ids = [f"warm-{n}" for n in range(len(warm))]
        bodies = payments.bodies(warm, ids, 0)
        answers = send_all(running.port, world.token, bodies, _WARM_UP_PER_S, number).answers
        told = [one.get("decided") == "banks asked" for one in answers]
        asked = warm[told] if any(told) else warm
        rows, is_new = _drawn(payments, first, asked, load, rng)
        bodies = payments.bodies(rows, [f"live-{n}" for n in range(len(rows))], n_warm)
        before, cpu, begun = running.metrics(), _cpu(running), time.monotonic()
        found = send_all(running.port, world.token, bodies, load.rate, number)
        passed, after = time.monotonic() - begun, running.metrics()
        used = {one: cpu_s - cpu[one] for one, cpu_s in _cpu(running).items()}
    missed, n_bytes = (
        _sum(after, name) - _sum(before, name)
        for name in ("pv4fad_live_missed_total", "pv4fad_live_bytes_total")
    )
    wrong = n_wrong(found, payments.positive[rows])
    return Part(found, is_new, wrong, missed, used, passed, n_bytes)


def _drawn(
    payments: Payments,
    first: NDArray[np.int64],
    warm: NDArray[np.int64],
    load: Load,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Payments, and which are new: the others have the accounts of `warm` only."""
    is_new = rng.random(load.n) >= load.known
    is_new &= np.cumsum(is_new) <= len(first)
    if load.known == 0:
        is_new = is_new[is_new]  # no more than there are
    rows = np.zeros(len(is_new), np.int64)
    rows[is_new] = first[: is_new.sum()]
    if not is_new.all():
        rows[~is_new] = rng.choice(payments.among(warm), (~is_new).sum())
    return rows, is_new


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
        "client": time.process_time(),
    }


def _sum(metrics: dict[str, float], name: str) -> float:
    return sum(value for known, value in metrics.items() if known.startswith(name))


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers, separated by commas") from None


def _minutes(loads: Sequence[Load], repeat: int, transactions: int) -> float:
    """How long it takes, roughly: from the CPU seconds of a few runs."""
    each = sum(load.n / load.rate + _WARM_UP / _WARM_UP_PER_S + _START_S for load in loads)
    worlds = sum(15 + 4 * n + transactions / 4000 for n in {load.banks for load in loads})
    return (each * repeat + worlds) / 60


def _print(cells: Sequence[str]) -> None:
    """One row, at once."""
    widths = (len(column) for column in COLUMNS)
    line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    out.print(line, soft_wrap=True, markup=False)
