"""`pv4fad bench`: speed, measured on this machine with generated data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import TaskID
from rich.table import Table

from pv4fad.cli.console import err, fail, out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.files import require_writable, write_whole
from pv4fad.report.texts import size_text
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import BenchReport, Progress
from pv4fad_bench.match import bench_match
from pv4fad_bench.paper_workload import PaperWorkload, Scoring
from pv4fad_bench.scaling import Model
from pv4fad_bench.score import bench_score
from pv4fad_bench.train import bench_train
from pv4fad_bench.workload import Workload

WRONG = "the result is wrong; please report this with the figures above"

app = typer.Typer(help="Measure speed, and how well anomalies are found.", no_args_is_help=True)

PnsAccounts = Annotated[
    int, typer.Option("--pns-accounts", min=1, help="Accounts of the payment network.")
]
BankAccounts = Annotated[int, typer.Option("--bank-accounts", min=1, help="Accounts of the bank.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all figures to this file.", dir_okay=False)
]

ModelName = Annotated[
    Literal["evidence", "paper"],
    typer.Option("--model", help="Evidence from counts, the default, or the paper's trees."),
]
HowToScore = Annotated[
    Literal["decisions", "votes"],
    typer.Option("--scoring", help="One bit per account; or votes, of the paper's model."),
]
Trees = Annotated[int, typer.Option("--trees", min=1, max=1024, help="Trees of the paper's model.")]
GroupsPerTree = Annotated[
    int, typer.Option("--groups-per-tree", min=1, help="Two red leaves each.")
]


@app.command()
def match(
    *,
    pns_accounts: PnsAccounts = 100_000,
    bank_accounts: BankAccounts = 100_000,
    model: ModelName = "evidence",
    trees: Trees = 12,
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """Match: which accounts are at the bank, shared and checked bin by bin.

    The overhead ratio compares the wall time with that of the HE operations alone.
    """
    workload = _workload(model, pns_accounts, bank_accounts, trees=trees)
    _run(lambda progress: bench_match(workload, workers, progress), json_file)


@app.command()
def train(
    *,
    pns_accounts: PnsAccounts = 100_000,
    bank_accounts: BankAccounts = 100_000,
    model: ModelName = "evidence",
    scoring: HowToScore = "decisions",
    trees: Trees = 12,
    groups_per_tree: GroupsPerTree = 34,
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """Private training with one bank, compared with a trusted third party.

    Labels of the paper's model are released if it is scored by decisions, sealed if by votes.
    """
    workload = _workload(
        model,
        pns_accounts,
        bank_accounts,
        trees=trees,
        groups_per_tree=groups_per_tree,
        scoring=scoring,
    )
    _run(lambda progress: bench_train(workload, workers, progress), json_file)


@app.command()
def score(
    *,
    transactions: Annotated[
        int, typer.Option("--transactions", min=1, help="Payments to score.")
    ] = 1_000_000,
    per_account: Annotated[
        int, typer.Option("--per-account", min=1, help="Payments of an account, at most.")
    ] = 15,
    model: ModelName = "evidence",
    scoring: HowToScore = "decisions",
    metered: Annotated[
        bool, typer.Option("--metered", help="Answers go by way of the aggregator.")
    ] = False,
    pns_accounts: PnsAccounts = 100_000,
    bank_accounts: BankAccounts = 100_000,
    trees: Trees = 12,
    groups_per_tree: GroupsPerTree = 34,
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """Asking the bank about one batch, every answer compared with a trusted third party.

    Decisions take at most three rounds, however many payments there are; votes a layer for each
    payment that an account has at most.  A model is trained first, off the clock.
    """
    workload = _workload(
        model,
        pns_accounts,
        bank_accounts,
        trees=trees,
        groups_per_tree=groups_per_tree,
        scoring=scoring,
        metered=metered,
    )
    _run(
        lambda progress: bench_score(
            workload,
            n_transactions=transactions,
            per_account=per_account,
            workers=workers,
            progress=progress,
        ),
        json_file,
    )


def _workload(
    model: Model,
    pns_accounts: int,
    bank_accounts: int,
    *,
    trees: int,
    groups_per_tree: int = 1,
    scoring: Scoring = "decisions",
    metered: bool = False,
) -> Workload:
    """`trees` and `groups_per_tree` are the paper's."""
    if metered and model == "paper":
        raise typer.BadParameter("measured with the default model only", param_hint="--metered")
    if model == "paper":
        return PaperWorkload(
            pns_accounts,
            bank_accounts,
            n_trees=trees,
            groups_per_tree=groups_per_tree,
            scoring=scoring,
        )
    if scoring == "votes":
        raise typer.BadParameter("votes need --model paper", param_hint="--scoring")
    return EvidenceWorkload(pns_accounts, bank_accounts, metered=metered)


def whole_numbers(text: str, option: str) -> list[int]:
    """1,2,3."""
    try:
        numbers = [int(one) for one in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise typer.BadParameter(f"'{text}' is not a list of numbers like 1,2,3", param_hint=option)
    return numbers


class Bar:
    """The progress of a benchmark on standard error."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID = bars.add_task("preparing", total=None)

    def begin(self, expected_s: float, n_steps: int) -> None:
        err.print(f"This will take about {_duration(expected_s)}.")
        self._bars.update(self._task, description="running", total=n_steps)

    def advance(self) -> None:
        self._bars.advance(self._task)


def _run(benchmark: Callable[[Progress], BenchReport], json_file: Path | None) -> None:
    require_writable(json_file)
    with progress_bar() as bars:
        report = benchmark(Bar(bars))
    if json_file is not None:
        write_whole(json_file, json.dumps(report.document(), indent=2) + "\n")
    _print(report)
    if not report.passed:
        fail(WRONG, 1)


def _print(report: BenchReport) -> None:
    out.print(f"[bold]{report.benchmark}[/]: {_pairs(report.workload)}", soft_wrap=True)
    out.print(_phases(report))
    out.print(_traffic(report))
    if report.operations:
        out.print(_operations(report))
    for name, peak in report.peak_bytes.items():
        out.print(f"peak memory of {name}: {peak / 2**20:,.0f} MiB")
    for name, value in report.figures.items():
        out.print(f"{_words(name)}: {_number(value)}")
    for claim, holds in report.checks.items():
        out.print(escape(claim) + (": [green]checked[/]" if holds else ": [bold red]WRONG[/]"))


def _phases(report: BenchReport) -> Table:
    table = Table("phase", title="Time")
    for heading in ("wall s", "CPU s"):
        table.add_column(heading, justify="right")
    for name, phase in report.phases.items():
        table.add_row(name, f"{phase.wall_s:.2f}", f"{phase.cpu_s:.2f}")
    table.add_section()
    cpu_s = sum(phase.cpu_s for phase in report.phases.values())
    table.add_row("total", f"{report.wall_s:.2f}", f"{cpu_s:.2f}")
    return table


def _traffic(report: BenchReport) -> Table:
    table = Table("message", "from", "to", title="Traffic")
    for heading in ("messages", "bytes"):
        table.add_column(heading, justify="right")
    for one in report.traffic:
        table.add_row(
            one.kind, one.sender, one.receiver, str(one.n_messages), size_text(one.n_bytes)
        )
    return table


def _operations(report: BenchReport) -> Table:
    table = Table("job", "HE operation", title="HE operations, timed inside the jobs")
    for heading in ("number", "ms each", "s"):
        table.add_column(heading, justify="right")
    for one in report.operations:
        each = f"{one.total_s / one.count * 1e3:.2f}"
        table.add_row(one.job, one.name, f"{one.count:,}", each, f"{one.total_s:.2f}")
    return table


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{_words(name)} {_number(value)}" for name, value in values.items())


def _words(name: str) -> str:
    return name.removeprefix("n_").replace("_", " ")


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
