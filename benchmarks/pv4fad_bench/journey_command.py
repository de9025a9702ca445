"""The command `pv4fad bench whole`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.files import require_writable, write_whole
from pv4fad.payments.generate import MIN_BANKS, MIN_TRANSACTIONS
from pv4fad.report.texts import size_text
from pv4fad.run.meter import PREPARE
from pv4fad_bench.commands import JsonFile
from pv4fad_bench.journey import STEPS, Journey, JourneyReport, travel


def command(
    *,
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="Messages of the generated data.")
    ] = 1_000_000,
    banks: Annotated[int, typer.Option(min=MIN_BANKS, help="Banks that hold accounts.")] = 25,
    epsilon: Annotated[str, typer.Option(help="Of the training.")] = "1",
    alert_share: Annotated[
        float, typer.Option(help="Share of payments expected to become alerts.")
    ] = 0.002,
    anomaly_rate: Annotated[
        float | None, typer.Option(help="Share of anomalous messages, as of pv4fad generate.")
    ] = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the data and of the training.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """What a user does, from generated data to its evaluation: time, bytes and memory by step.

    Every step is the command itself in a process of its own, with real encryption.
    """
    require_writable(json_file)
    journey = Journey(transactions, banks, epsilon, alert_share, anomaly_rate, workers, seed)
    with progress_bar() as bars, tempfile.TemporaryDirectory(prefix="pv4fad-") as place:
        task = bars.add_task("starting", total=len(STEPS))

        def begin(step: str) -> None:
            bars.update(task, description=step, completed=STEPS.index(step))

        report = travel(journey, Path(place), begin)
        bars.update(task, description="done", completed=len(STEPS))
    if json_file is not None:
        write_whole(json_file, json.dumps(report.document(), indent=2) + "\n")
    _print(report)


def _print(report: JourneyReport) -> None:
    out.print(
        f"{report.journey.transactions:,} messages, {report.journey.banks} banks with"
        f" {report.accounts:,} accounts (padded), ε {report.journey.epsilon};"
        f" {report.scored:,} payments scored",
        soft_wrap=True,
    )
    table = Table("step", title="What a user does")
    for heading in ("wall s", "CPU s", "bytes sent", "peak memory of a process"):
        table.add_column(heading, justify="right")
    for step in report.steps:
        table.add_row(
            f"[bold]{step.name}[/]",
            f"{step.wall_s:.1f}",
            f"{step.cpu_s:.1f}",
            size_text(report.n_bytes(step.name)) if report.n_bytes(step.name) else "",
            size_text(step.peak_bytes),
        )
        for phase in report.phases.get(step.name, ()):
            sent = size_text(phase.bytes) if phase.bytes else ""
            table.add_row(f"  {phase.phase}", f"{phase.seconds:.1f}", "", sent, "")
            if (step.name, phase.phase) == ("train", PREPARE):
                for part, seconds in report.preparation.items():
                    table.add_row(f"    {part}, done again", f"{seconds:.1f}", "", "", "")
    table.add_section()
    table.add_row(
        "all",
        f"{sum(step.wall_s for step in report.steps):.1f}",
        f"{sum(step.cpu_s for step in report.steps):.1f}",
        size_text(sum(report.n_bytes(step.name) for step in report.steps)),
        size_text(max(step.peak_bytes for step in report.steps)),
    )
    out.print(table)
