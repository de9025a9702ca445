"""`pv4fad demo`: the main job end to end, with the commands that do it, and what came out of it.

Every step is a command line that is shown and then run, so that each can be typed again, changed.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import typer
from rich.rule import Rule

from pv4fad.cli.console import err, out
from pv4fad.cli.demo_summary import summary
from pv4fad.cli.dossier import dossier_of
from pv4fad.cli.options import federation_key
from pv4fad.errors import DataError
from pv4fad.evaluation.scored import default_predictions
from pv4fad.payments.challenge import scoring_splits
from pv4fad.payments.generate import MIN_BANKS, MIN_TRANSACTIONS
from pv4fad.report.content import gather
from pv4fad.report.dossier.pages import write_dossier
from pv4fad.report.page import write_page
from pv4fad.run.folder import RunFolder

MARK = "made-by-pv4fad-demo.txt"
_ABOUT = """\
Made by `pv4fad demo`, which replaces this folder when it runs again.
  data           generated payments and accounts
  run            a run with noise: a folder for each party, the predictions with the payment network
  sample, exact  a small federation without noise, to compare with a trusted third party
  report.html    the run as a page
  dossier        the run for a supervisor: a page for each question, and the JSON behind them
  key            the passphrase of all stores; in a real federation every party has its own
"""
_SAMPLE = 2_000


@dataclass(frozen=True)
class Step:
    """Commands that do one thing, and why."""

    title: str
    why: str
    commands: tuple[tuple[str | Path | float, ...], ...]
    shows_last: bool = False  # what the last command prints; the summary has the rest

    @property
    def lines(self) -> list[list[str]]:
        return [[str(word) for word in command] for command in self.commands]


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where to put data and runs.")] = Path("demo"),
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="How many to generate.")
    ] = 150_000,
    banks: Annotated[int, typer.Option(min=MIN_BANKS, help="How many banks take part.")] = 3,
) -> None:
    """Generate data, train and score privately, compare, and write a report: two minutes."""
    started = time.monotonic()
    fresh_folder(folder, MARK, _ABOUT, "demo")
    out.print(
        "PV4FAD, with all parties on this machine: about two minutes on two cores. Nothing is"
        f" sent anywhere; everything is written to {folder}.",
        markup=False,
    )
    root = context.find_root().command
    for number, step in enumerate(steps(folder, transactions, banks), start=1):
        out.print()
        out.print(Rule(f"{number}. {step.title}", align="left"))
        out.print(step.why, markup=False)
        lines = step.lines
        for line in lines:
            show_and_run(root, line, quiet=not (step.shows_last and line is lines[-1]))
    _conclude(folder)
    out.print(
        f"Done in {time.monotonic() - started:.0f} seconds. Each command can be"
        " typed as shown, with other folders and files to write to; pv4fad"
        " is in .venv/bin. Read on: README.md.",
        markup=False,
    )


def steps(folder: Path, transactions: int, banks: int) -> Iterator[Step]:
    """The demo as command lines."""
    data, run = folder / "data", folder / "run"
    key = ("--key-file", folder / "key")
    yield Step(
        "Payments and accounts, made up",
        "The payment network has payments, one in a thousand anomalous; banks have flags.",
        (("generate", data, "--transactions", transactions, "--banks", banks, "--seed", 1),),
    )
    yield Step(
        "Count accounts without revealing anyone's data",
        "The payment network gets noisy counts, ε = 1: how many accounts that saw an anomaly, and"
        " how many others, are ordinary to their bank. With so few anomalies fewer counts with less"
        f" noise tell more, hence coarse. Each party has a folder of its own in {run}.",
        (("train", data, "--out", run, "--epsilon", 1, "--sets", "coarse", *key),),
    )
    yield Step(
        "Score the payments of the last days",
        "The payment network asks one bit about an account, where that bit decides whether a"
        " payment becomes an alert, or a higher one. Banks see neither which account nor the"
        " answer.",
        (("score", run, data, "--out", default_predictions(run), *key),),
        shows_last=True,
    )
    yield Step(
        "What would an attacker get?",
        "Each party is played with what its store holds, against the truth; what they got is in the"
        " report and the dossier. Two small runs of each of two worlds are too few to judge whether"
        " banks and aggregator tell them apart: by default there are 12.",
        (("attack", run, data, "--worlds", 2, *key),),
    )
    sample, exact = folder / "sample", folder / "exact"
    decisions = default_predictions(exact)
    yield Step(
        "Is such a result right? Compare with a trusted third party",
        "Noise makes counts differ on purpose, so a small federation of its own, with many"
        " anomalies, goes without. No bank with a finite limit would do this.",
        (
            (
                *("generate", sample, "--transactions", _SAMPLE, "--banks", MIN_BANKS),
                *("--anomaly-rate", 0.05, "--seed", 2),
            ),
            (
                *("train", sample, "--out", exact, "--epsilon", "none"),
                *("--alert-share", 0.02, "--seed", 5, *key),
            ),
            ("score", exact, sample, "--out", decisions, *key),
            ("verify", exact, sample, "--predictions", decisions, *key),
        ),
        shows_last=True,
    )


def _conclude(folder: Path) -> None:
    """What came of it, as a table and as a page; both from one look at everything."""
    data, run, report = folder / "data", RunFolder(folder / "run"), folder / "report.html"
    predictions, key = default_predictions(run.path), folder / "key"
    out.print()
    out.print(Rule("What came of it", align="left"))
    err.print("Now with all data in one place, to compare: nothing about that is private.")
    root_key = federation_key(str(key))
    content = gather(run, predictions, scoring_splits(data), root_key, joined=True)
    write_page(report, content)
    pages = folder / "dossier"
    write_dossier(pages, dossier_of(run, content, predictions, root_key, []))
    out.print(summary(content))
    out.print(f"All of this as a page, with the highest alerts: {report}", markup=False)
    words = ["report", run.path, data, "--joined", "--out", "FILE", "--key-file", key]
    out.print(f"Again: pv4fad {shlex.join(map(str, words))}", markup=False, soft_wrap=True)
    out.print(f"For a supervisor, to print and fill in: {pages / 'index.html'}", markup=False)


# For `demo-federated`, too.


def fresh_folder(folder: Path, mark: str, about: str, command: str) -> None:
    """Create an empty folder with a file `mark`; a folder that has one already is replaced.

    `command`: of the demo, for error messages.
    """
    advice = f"choose another place: pv4fad {command} FOLDER"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder}: is not a folder; {advice}")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / mark).is_file():
            raise DataError(f"{folder}: holds files that the demo did not make; {advice}")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / mark).write_text(about, encoding="utf-8")


def show_and_run(root: click.Command, words: Sequence[str | Path], *, quiet: bool) -> None:
    """Print a command line and run it; `quiet` hides what it prints.

    If the command fails or is interrupted, the demo ends with its exit code.
    """
    line = [str(word) for word in words]
    out.print(f"$ pv4fad {shlex.join(line)}", style="bold", markup=False, soft_wrap=True)
    with out.capture() if quiet else nullcontext():
        code = root.main(line, prog_name="pv4fad", standalone_mode=False)
    if code:
        raise typer.Exit(code)
