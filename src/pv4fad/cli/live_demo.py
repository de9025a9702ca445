"""`pv4fad demo-live`: payments judged while they are on their way, with an alert desk to look at.

Every party is a process of its own on this machine, with a model that they have just trained.  The
payments of the last days are replayed in order; in the middle the accounts that were new join.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.rule import Rule

from pv4fad.cli.console import out
from pv4fad.cli.demo import fresh_folder
from pv4fad.cli.federation_demo import (
    Words,
    decisions,
    free_ports,
    key_option,
    party_runs,
    running,
    step,
)
from pv4fad.cli.serve import require_service
from pv4fad.errors import StoreError
from pv4fad.lead.data import load_rows
from pv4fad.payments.challenge import bank_client_id, transactions_file
from pv4fad.payments.generate import MIN_BANKS, MIN_TRANSACTIONS
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

MARK = "made-by-pv4fad-demo-live.txt"
_ABOUT = """\
Made by `pv4fad demo-live`, which replaces this folder when it runs again.
  data                              generated payments and accounts
  aggregator, payment-network, ...  what each party has on its machine
  keys                              their passphrases, one file each
"""
_TOGETHER = 20  # payments in a request
_SERVICE = "service"


def demo_live(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder for all files of the demo.")] = Path(
        "demo-live"
    ),
    *,
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="How many to generate.")
    ] = 20_000,
    banks: Annotated[int, typer.Option(min=MIN_BANKS, help="How many banks take part.")] = 3,
    rate: Annotated[float, typer.Option(min=1, help="Payments per second.")] = 50,
    minutes: Annotated[
        float, typer.Option(min=0, help="How long the pages stay after the last payment.")
    ] = 10,
) -> None:
    """Judge payments live with banks, hub and service, and look at the alerts: some minutes."""
    require_service()
    fresh_folder(folder, MARK, _ABOUT, "demo-live")
    (folder / "keys").mkdir(mode=0o700)
    names = [bank_client_id(number) for number in range(1, banks + 1)]
    parties = [AGGREGATOR, PAYMENT_NETWORK, *names]
    root, data = context.find_root().command, folder / "data"
    out.print(
        f"PV4FAD live: an aggregator with its hub, a payment network and {banks} banks in separate"
        " processes. About two minutes on two cores until the first payment. Ctrl-C ends it.",
        markup=False,
    )
    size: Words = ["--transactions", str(transactions), "--banks", str(banks)]
    words: Words = ["generate", data, *size]
    step(root, "Generate payments and accounts", words, quiet=True)
    hub, port, *inboxes = free_ports(2 + banks)
    for name in parties:
        words = ["party", "init", folder / name, *decisions(name, folder, hub)]
        step(root, f"{name} creates its folder, its keys and its card", words, quiet=True)
    for name in parties:
        cards: Words = [folder / other / "card.json" for other in parties if other != name]
        step(
            root, f"{name} imports the cards", ["party", "join", folder / name, *cards], quiet=True
        )
    tokens = {
        name: _token(
            folder / name, "alice" if name == PAYMENT_NETWORK else f"bob of {name}", "desk"
        )
        for name in (PAYMENT_NETWORK, *names)
    }
    sender = _token(folder / PAYMENT_NETWORK, "core-banking", "payments")
    commands = party_runs(folder, [AGGREGATOR, PAYMENT_NETWORK])
    for name, inbox in zip(names, inboxes, strict=True):
        serve: Words = ["serve", "bank", folder / name, "--port", str(inbox)]
        commands[name] = [*serve, *key_option(folder, name)]
    service: Words = ["serve", "payment-network", folder / PAYMENT_NETWORK, "--port", str(port)]
    served = {_SERVICE: [*service, *key_option(folder, PAYMENT_NETWORK)]}
    out.print()
    out.print(Rule("All parties start", align="left"))
    with running(folder, commands):
        train: Words = ["federation", "start", folder / AGGREGATOR, "train"]
        step(root, "Train", train, quiet=True)
        out.print()
        out.print(Rule("The live service", align="left"))
        with running(folder, served):
            address = f"http://127.0.0.1:{port}"
            _wait_for(address)
            out.print(
                f"\nAlert desk: {address}/  token of alice: {tokens[PAYMENT_NETWORK]}",
                markup=False,
                soft_wrap=True,
            )
            for name, inbox in zip(names, inboxes, strict=True):
                text = f"Inbox of {name}: http://127.0.0.1:{inbox}/  token: {tokens[name]}"
                out.print(text, markup=False, soft_wrap=True)
            out.print()
            out.print(Rule("Payments come", align="left"))
            _replay(folder, _Sender(address, sender), rate)
            out.print(
                f"\nAll payments are decided. The pages stay for {minutes:g} minutes, or until"
                " Ctrl-C. How to do this between organisations: docs/operate/live.md.",
                markup=False,
                soft_wrap=True,
            )
            with suppress(KeyboardInterrupt):  # as announced
                time.sleep(60 * minutes)


class _Sender:
    """What a program does that has payments to judge."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self.decided: Counter[str] = Counter()
        self.alerts: Counter[int] = Counter()

    def send(self, payments: list[dict[str, Any]]) -> float:
        """Their decisions are counted; the time that it took, in seconds."""
        request = urllib.request.Request(  # noqa: S310  its own service
            f"{self._address}/payments/batch",
            json.dumps(payments).encode(),
            {"authorization": f"Bearer {self._token}", "content-type": "application/json"},
        )
        begun = time.perf_counter()
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            found = json.load(answer)
        for one in found:
            self.decided[one["decided"]] += 1
            self.alerts[one["level"]] += one["alert"]
        return time.perf_counter() - begun

    def __str__(self) -> str:
        hows = ", ".join(f"{how} {n:,}" for how, n in self.decided.most_common())
        return f"{self.decided.total():,} payments: {hows}; alerts {self.alerts.total():,}"


def _replay(folder: Path, sender: _Sender, rate: float) -> None:
    """The payments to come, in order; in the middle new accounts join."""
    payments = _payments(folder)
    middle = len(payments) // 2
    _send(sender, payments[:middle], rate)
    relay = folder / AGGREGATOR
    with _beside(folder, "match", ["federation", "start", relay, "match"]) as match:
        out.print("Accounts that were new join the tables of their banks while payments go on.")
        _send(sender, payments[middle:], rate / 2)
        match.wait()
    out.print(str(sender), markup=False)


def _send(sender: _Sender, payments: list[dict[str, Any]], rate: float) -> None:
    start, said = time.monotonic(), time.monotonic()
    slowest = 0.0
    for first in range(0, len(payments), _TOGETHER):
        time.sleep(max(0.0, start + first / rate - time.monotonic()))
        slowest = max(slowest, sender.send(payments[first : first + _TOGETHER]))
        if time.monotonic() - said > 5:
            out.print(f"{sender}; slowest answer {1000 * slowest:.0f} ms", markup=False)
            said, slowest = time.monotonic(), 0.0


def _payments(folder: Path) -> list[dict[str, Any]]:
    from pv4fad.service.intake import texts_of  # noqa: PLC0415  with the extra only

    scenario = folder / "data" / "scenario01"
    path = scenario / "test" / "swift" / transactions_file("test")
    rows = load_rows(SCHEMA, path, labels_required=False).drop("Label", strict=False)
    rows = rows.sort("Timestamp", maintain_order=True)
    return [dict(zip(rows.columns, json.loads(text), strict=True)) for text in texts_of(rows)]


def _token(folder: Path, name: str, use: str) -> str:
    from pv4fad.service.access import Tokens  # noqa: PLC0415  with the extra only

    words = ["desk", "token", str(folder), "--name", name, "--use", use]
    out.print(f"$ pv4fad {shlex.join(words)}", style="bold", markup=False, soft_wrap=True)
    return Tokens(folder).create(name, use)


@contextmanager
def _beside(folder: Path, name: str, words: Words) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process of its own; the block's end ends it."""
    line = [str(word) for word in words]
    out.print(f"$ pv4fad {shlex.join(line)} &", style="bold", markup=False, soft_wrap=True)
    with (folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pv4fad", *line],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=5):  # noqa: S310
                return
        except OSError:
            if time.monotonic() > until:
                raise StoreError("the service did not start; see service.log") from None
            time.sleep(0.2)
