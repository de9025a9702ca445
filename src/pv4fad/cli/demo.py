"""`pv4fad demo`: the commands of PV4FAD in the order in which a newcomer meets them.

Every step is a command line that is shown and then run, so that each can be typed again, changed.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.rule import Rule
from rich.table import Table

from pv4fad.cli.console import out
from pv4fad.cli.phases import size_text
from pv4fad.data.generate.settings import MIN_BANKS, MIN_TRANSACTIONS
from pv4fad.errors import DataError
from pv4fad.runs.folder import RunFolder

MARK = "made-by-pv4fad-demo.txt"
_ABOUT = """\
Made by `pv4fad demo`, which replaces this folder when it runs again.
  data           generated payments and accounts
  run, exact     a run with noise, one without: a folder for each party
  predictions    votes for the payments of the last days
  key            the passphrase of all stores; in a real federation every party has its own
"""

# By receiver: what it could make of what reached it in training with a sealed model.
_CAN_TELL = {
    "payment-network": "uniform values, its share of the labels among them",
    "bank": "uniform values, and ciphertexts that it cannot open",
    "aggregator": "uniform values, and ciphertexts that it cannot open",
}


@dataclass(frozen=True)
class Step:
    """One command, and why it is run."""

    title: str
    why: str
    words: tuple[str | Path | float, ...]
    quiet: bool = False  # leave out its tables: another step shows the same

    @property
    def arguments(self) -> list[str]:
        return [str(word) for word in self.words]


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where to put data and runs.")] = Path("demo"),
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="How many to generate.")
    ] = 20_000,
    banks: Annotated[int, typer.Option(min=MIN_BANKS, help="How many banks take part.")] = 3,
) -> None:
    """Generate data, train and score privately, check a run without noise: two minutes."""
    started = time.monotonic()
    _make_fresh(folder)
    out.print(
        "PV4FAD, with all parties on this machine: one to two minutes on two cores. Nothing is"
        f" sent anywhere; everything is written to {folder}.",
        markup=False,
    )
    root = context.find_root().command
    for number, step in enumerate(steps(folder, transactions, banks), start=1):
        out.print()
        out.print(Rule(f"{number}. {step.title}", align="left"))
        out.print(step.why, markup=False)
        shown = f"$ pv4fad {shlex.join(step.arguments)}"
        out.print(shown, style="bold", markup=False, soft_wrap=True)
        # Typer makes an exit code of an interrupt; whatever a step ends with, nothing follows it.
        with out.capture() if step.quiet else nullcontext():
            code = root.main(step.arguments, prog_name="pv4fad", standalone_mode=False)
        if code:
            raise typer.Exit(code)
    out.print()
    out.print(Rule("What each party received while the model with ε = 1 was trained", align="left"))
    out.print(_received(folder / "run"))
    out.print(
        f"Done in {time.monotonic() - started:.0f} seconds. Each command can be typed again; pv4fad"
        " is in .venv/bin. Read on: README.md.",
        markup=False,
    )


def steps(folder: Path, transactions: int, banks: int) -> Iterator[Step]:
    """The demo as command lines."""
    data, run, key = folder / "data", folder / "run", folder / "key"
    yield Step(
        "A private count that you can check by hand",
        "Real keys and messages; the noise is off, so that the answer is exact.",
        ("example",),
    )
    yield Step(
        "Payments and accounts, made up",
        "The payment network has payments, one in a thousand anomalous; banks have flags.",
        ("generate", data, "--transactions", transactions, "--banks", banks, "--seed", 1),
        quiet=True,
    )
    yield Step(
        "What the parties hold",
        "Every row of every file is checked.",
        ("data", "check", data / "scenario01" / "train"),
    )
    yield Step(
        "Train on everybody's data, seen by nobody",
        f"Noise for ε = 1. Each party has a folder of its own in {run}.",
        ("train", data, "--out", run, "--epsilon", 1, "--key-file", key),
    )
    yield Step(
        "What the first bank has spent",
        "ε is spent before anything is released, and never comes back.",
        ("ledger", "show", run / "bank01", "--key-file", key),
    )
    yield Step(
        "Score the payments of the last days",
        "The payment network gets one vote total per side of a payment; banks see nothing.",
        ("score", run, data, "--out", folder / "predictions.csv", "--key-file", key),
    )
    exact = folder / "exact"
    yield Step(
        "Is such a result right? Train again without noise",
        "Noise makes labels differ on purpose. No bank with a finite limit would do this.",
        ("train", data, "--out", exact, "--epsilon", "none", "--key-file", key),
        quiet=True,
    )
    yield Step(
        "Compare with a trusted third party that has all data",
        "Trees, counts and labels, computed again in the clear.",
        ("verify", exact, data, "--key-file", key),
    )


def _make_fresh(folder: Path) -> None:
    """An empty folder with our mark; what an earlier demo made is replaced, and nothing else."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder}: is no folder; name another place: pv4fad demo FOLDER")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MARK).is_file():
            raise DataError(
                f"{folder}: holds files that no demo made; name another place: pv4fad demo FOLDER"
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(_ABOUT, encoding="utf-8")


def _received(run: Path) -> Table:
    document = RunFolder(run).require_finished()
    table = Table("to", "messages", "bytes", "what the receiver sees in them")
    for receiver, can_tell in _CAN_TELL.items():
        traffic = [one for one in document.traffic if one.receiver == receiver]
        size = size_text(sum(one.bytes for one in traffic))
        table.add_row(
            receiver.replace("-", " "), str(sum(one.messages for one in traffic)), size, can_tell
        )
    return table
