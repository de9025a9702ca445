"""`pv4fad bench classes`, as a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import fail, out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.files import require_writable, write_whole
from pv4fad.report.texts import size_text
from pv4fad.schema import MOST_CLASSES
from pv4fad_bench.classes import CLASSES, ClassesPoint, ClassesReport, bench_classes
from pv4fad_bench.commands import (
    WRONG,
    BankAccounts,
    Bar,
    JsonFile,
    PnsAccounts,
    whole_numbers,
)
from pv4fad_bench.harness import Phase


def command(
    *,
    pns_accounts: PnsAccounts = 20_000,
    bank_accounts: BankAccounts = 20_000,
    classes: Annotated[
        str, typer.Option("--classes", help="Numbers of classes, separated by commas.")
    ] = ",".join(map(str, CLASSES)),
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """The default model with more classes of records: seconds, bytes and rounds, all checked."""
    wanted = whole_numbers(classes, "--classes")
    if not 2 <= min(wanted) <= max(wanted) <= MOST_CLASSES:
        raise typer.BadParameter(
            f"'{classes}': records have 2 to {MOST_CLASSES} classes", param_hint="--classes"
        )
    require_writable(json_file)
    with progress_bar() as bars:
        report = bench_classes(pns_accounts, bank_accounts, wanted, workers, Bar(bars))
    if json_file is not None:
        write_whole(json_file, json.dumps(report.document(), indent=2) + "\n")
    _print(report)
    if not report.passed:
        fail(WRONG, 1)


def _seconds(*phases: Phase) -> str:
    wall_s, cpu_s = sum(one.wall_s for one in phases), sum(one.cpu_s for one in phases)
    return f"{wall_s:.1f} ({cpu_s:.1f})"


def _print(report: ClassesReport) -> None:
    points = report.points
    workload = points[0].workload
    table = Table(
        "classes",
        title=f"Cost against classes, {workload.pns_accounts:,} accounts of the payment network, "
        f"{workload.bank_accounts:,} of the bank",
    )
    for point in points:
        table.add_column(str(point.workload.n_classes), justify="right")

    def add(name: str, cell: Callable[[ClassesPoint], str]) -> None:
        table.add_row(name, *map(cell, points))

    add("counts", lambda point: f"{point.counts:,}")
    add("rounds of a scoring", lambda point: str(point.rounds))
    table.add_section()
    for phase in points[0].phases:
        table.add_row(
            f"{phase}, wall s (CPU s)", *(_seconds(point.phases[phase]) for point in points)
        )
    add("all, wall s (CPU s)", lambda point: _seconds(*point.phases.values()))
    table.add_section()
    add("training, bytes", lambda point: size_text(point.train_bytes))
    add("scoring, bytes", lambda point: size_text(point.score_bytes))
    add("log2 distance in training", lambda point: f"{point.log2_distance:.1f}")
    out.print(table)
    n_checks = sum(len(point.checks) for point in points)
    out.print(
        f"{n_checks} comparisons with a trusted third party: "
        + ("[green]equal[/]" if report.passed else "[bold red]WRONG[/]")
    )
