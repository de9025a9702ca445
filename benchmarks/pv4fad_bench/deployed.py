"""`pv4fad bench deployed`: the same training and scoring in one process, and through a hub.

Everything is on this machine, and everything is done by commands, as a person would.  CPU seconds
are those of all processes, from the beginning of a job to its end (Linux: read from /proc); in one
process they include its start.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import err, out
from pv4fad.cli.federation_demo import decisions, free_ports
from pv4fad.deployment.status import read_status
from pv4fad.payments.challenge import bank_client_id
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Of one job."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} ({self.cpu_s:.1f})"


def command(
    *,
    transactions: Annotated[int, typer.Option(min=1000, help="How many to generate.")] = 20_000,
    banks: Annotated[int, typer.Option(min=2, help="How many banks take part.")] = 3,
) -> None:
    """Training and scoring in one process and deployed, with a hub, on this machine."""
    with tempfile.TemporaryDirectory(prefix="pv4fad-bench-") as name:
        folder = Path(name)
        (folder / "keys").mkdir(mode=0o700)
        size = ["--transactions", str(transactions), "--banks", str(banks)]
        _pv4fad("generate", folder / "data", *size)
        together = _in_one_process(folder)
        apart = _deployed(folder, [bank_client_id(number) for number in range(1, banks + 1)])
    table = Table("wall s (CPU s)", title=f"{transactions:,} transactions, {banks} banks")
    for column in ("in one process", "deployed", "ratio of wall s", "of CPU s"):
        table.add_column(column, justify="right")
    for job, one in together.items():
        other = apart[job]
        ratios = (other.wall_s / one.wall_s, other.cpu_s / one.cpu_s)
        table.add_row(job, str(one), str(other), *(f"{ratio:.2f}" for ratio in ratios))
    out.print(table)


def _in_one_process(folder: Path) -> dict[str, Cost]:
    data, run, key = folder / "data", folder / "run", ["--key-file", folder / "keys" / "run"]
    costs = {}
    for job, words in (
        ("train", ["train", data, "--out", run, "--epsilon", "1", *key]),
        ("score", ["score", run, data, "--out", folder / "predictions.csv", *key]),
    ):
        err.print(f"{job} in one process ...")
        before, start = _children_cpu_s(), time.monotonic()
        _pv4fad(*words)
        costs[job] = Cost(time.monotonic() - start, _children_cpu_s() - before)
    return costs


def _deployed(folder: Path, banks: list[str]) -> dict[str, Cost]:
    parties = [AGGREGATOR, PAYMENT_NETWORK, *banks]
    (port,) = free_ports(1)
    for name in parties:
        _pv4fad("party", "init", folder / name, *decisions(name, folder, port))
    cards = [folder / name / "card.json" for name in parties]
    for name in parties:
        _pv4fad("party", "join", folder / name, *cards)
    costs = {}
    with _running(folder, parties) as processes:
        for job in ("check", "train", "score"):
            err.print(f"{job} deployed ...")
            before = sum(map(tree_cpu_s, processes))
            _pv4fad("federation", "start", folder / AGGREGATOR, job)
            cpu_s = sum(map(tree_cpu_s, processes)) - before
            status = read_status(folder / AGGREGATOR)
            costs[job] = Cost(0.0 if status is None else status.seconds, cpu_s)
    return costs


@contextmanager
def _running(folder: Path, parties: list[str]) -> Iterator[list[int]]:
    processes = []
    log = folder / "parties.log"
    try:
        for name in parties:
            words = ["party", "run", folder / name, "--key-file", folder / "keys" / name]
            with log.open("ab") as output:
                processes.append(
                    subprocess.Popen(  # noqa: S603
                        [sys.executable, "-m", "pv4fad", *map(str, words)],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        while log.read_text().count("is connected") < len(parties):
            time.sleep(0.1)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _pv4fad(*words: object) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pv4fad", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"pv4fad {words[0]}: {done.stderr or done.stdout}")
    return done.stdout


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_cpu_s(pid: int, *, with_children: bool = True) -> float:
    """Of a process and all that it started; or of those only that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").parent.parent.glob("*/children")
    pids = {int(child) for file in children for child in file.read_text().split()}
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = sum(map(int, fields[11:15])) / _TICKS_PER_S  # its ended children included
    return own + sum(map(tree_cpu_s, pids)) * with_children
