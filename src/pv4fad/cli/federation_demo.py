"""`pv4fad demo-federated`: the demo with every party in a process of its own.

Every step is a command that is shown and then run.  All parties are on one machine, but as separate
as on several: each has its own folder, passphrase and keys, and reads only the cards of the others.
"""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import click
import numpy as np
import typer
from rich.rule import Rule

from pv4fad.cli.console import out
from pv4fad.cli.demo import fresh_folder, show_and_run
from pv4fad.cli.progress import learned_lines
from pv4fad.errors import StoreError
from pv4fad.payments.challenge import bank_client_id, transactions_file
from pv4fad.payments.generate import MIN_BANKS, MIN_TRANSACTIONS
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.run.scoring_record import read_record

MARK = "made-by-pv4fad-demo-federated.txt"
_PORTS = range(20_000, 32_000)
_ABOUT = """\
Made by `pv4fad demo-federated`, which replaces this folder when it runs again.
  data                              generated payments and accounts
  aggregator, payment-network, ...  what each party has on its machine
  keys                              their passphrases, one file each
"""

_READY_WITHIN_S = 120.0
_READY = ("is ready", "alert desk:")

Words = list[str | Path]


def demo_federated(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder for all files of the demo.")] = Path(
        "demo-federated"
    ),
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="How many to generate.")
    ] = 20_000,
    banks: Annotated[int, typer.Option(min=MIN_BANKS, help="How many banks take part.")] = 3,
) -> None:
    """Train and score with the parties as separate processes, through a hub: two minutes."""
    started = time.monotonic()
    fresh_folder(folder, MARK, _ABOUT, "demo-federated")
    (folder / "keys").mkdir(mode=0o700)
    out.print(
        f"PV4FAD deployed: an aggregator, a payment network and {banks} banks in separate"
        " processes, connected by mutual TLS on this machine. Up to two minutes on two cores.",
        markup=False,
    )
    names = [bank_client_id(number) for number in range(1, banks + 1)]
    parties = [AGGREGATOR, PAYMENT_NETWORK, *names]
    root = context.find_root().command
    data = folder / "data"
    step(
        root,
        "Generate payments and accounts",
        ["generate", data, "--transactions", str(transactions), "--banks", str(banks)],
        quiet=True,
    )
    (port,) = free_ports(1)
    for name in parties:
        words = ["party", "init", folder / name, *decisions(name, folder, port)]
        step(root, f"{name} creates its folder, its keys and its card", words, quiet=True)
    for name in parties:
        cards = [folder / other / "card.json" for other in parties if other != name]
        words = ["party", "join", folder / name, *cards]
        last = name == parties[-1]
        step(root, f"{name} imports the cards of the others", words, quiet=not last)
    bank = names[0]
    step(root, f"Is {bank} ready?", ["party", "check", folder / bank, *key_option(folder, bank)])
    out.print()
    out.print(Rule("All parties start", align="left"))
    with running(folder, party_runs(folder, parties)):
        relay = folder / AGGREGATOR
        step(
            root, "Are all parties connected?", ["federation", "start", relay, "check"], quiet=True
        )
        step(root, "Train: noisy counts, ε = 1", ["federation", "start", relay, "train"])
        step(
            root,
            "Score the payments of the last days: one bit where it can make an alert",
            ["federation", "start", relay, "score"],
        )
    words = ["ledger", "show", folder / bank, *key_option(folder, bank)]
    step(root, f"What {bank} has spent", words)
    (file,) = (folder / PAYMENT_NETWORK / "predictions").glob("*.csv")
    record = read_record(file)
    out.print()
    out.print(Rule("What the payment network alone has learnt", align="left"))
    for line in [] if record is None else learned_lines(record, SCHEMA.words):
        out.print(line, markup=False, soft_wrap=True)
    out.print(
        f"Predictions: {file}. Done in {time.monotonic() - started:.0f} seconds. How to do this"
        " between organisations: docs/operate/deployment.md.",
        markup=False,
        soft_wrap=True,
    )


def decisions(name: str, folder: Path, port: int) -> Words:
    """The options that the operator of a party chooses."""
    scenario = folder / "data" / "scenario01"
    words: Words = ["--hub", f"127.0.0.1:{port}", *key_option(folder, name)]
    if name == AGGREGATOR:
        return ["--role", "aggregator", *words]
    if name == PAYMENT_NETWORK:
        known = scenario / "train" / "swift" / transactions_file("train")
        new = scenario / "test" / "swift" / transactions_file("test")
        data: Words = ["--data", known, "--new-transactions", new]
        return ["--role", "payment-network", *data, "--epsilon", "1", *words]
    accounts = scenario / "train" / name / "bank_dataset.csv"
    return ["--role", "bank", "--name", name, "--data", accounts, "--limit", "1", *words]


def key_option(folder: Path, name: str) -> Words:
    return ["--key-file", folder / "keys" / name]


def step(root: click.Command, title: str, words: Words, *, quiet: bool = False) -> None:
    out.print()
    out.print(Rule(title, align="left"))
    show_and_run(root, words, quiet=quiet)


def party_runs(folder: Path, names: Iterable[str]) -> dict[str, Words]:
    """`pv4fad party run` of each of these parties."""
    return {name: ["party", "run", folder / name, *key_option(folder, name)] for name in names}


@contextmanager
def running(folder: Path, commands: Mapping[str, Words]) -> Iterator[None]:
    """These commands in processes of their own until the block ends, each with its log.

    The block begins when the first of them is ready.
    """
    processes: list[subprocess.Popen[bytes]] = []
    # By default a SIGTERM would end this process and leave the parties running.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for name, words in commands.items():
            line, log = [str(word) for word in words], folder / f"{name}.log"
            shown = f"$ pv4fad {shlex.join(line)} > {log} 2>&1 &"
            out.print(shown, style="bold", markup=False, soft_wrap=True)
            with log.open("wb") as output:
                processes.append(
                    subprocess.Popen(  # noqa: S603
                        [sys.executable, "-m", "pv4fad", *line],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        first = next(iter(commands))
        wait_until_ready(folder / f"{first}.log", first, processes[0])
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in processes:
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()


def wait_until_ready(log: Path, name: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    while not any(word in log.read_text(errors="replace") for word in _READY):
        if process.poll() is not None or time.monotonic() > until:
            raise StoreError(f"{name} did not start; see {log}")
        time.sleep(0.1)


def free_ports(n: int) -> list[int]:
    """Different ports of this machine that are not in use now.

    Below those that a system gives to outgoing connections, one of which could have taken a port
    before it is used.
    """
    ports: list[int] = []
    for port in np.random.default_rng().permutation(_PORTS).tolist():
        with suppress(OSError), socket.socket() as bound:
            bound.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == n:
            break
    return ports
