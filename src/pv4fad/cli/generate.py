"""`pv4fad generate`: synthetic data in the challenge format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import out, print_json, progress_bar
from pv4fad.payments.generate import (
    LEAK_LIMIT,
    MIN_BANKS,
    MIN_TRANSACTIONS,
    STEPS,
    Difficulty,
    GeneratedFolder,
    Settings,
    generate,
    unexpected_leaks,
)

_N_COLUMNS_SHOWN = 12


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty folder for the data set.")
    ],
    *,
    transactions: Annotated[
        int,
        typer.Option(
            help=f"Messages in all, {MIN_TRANSACTIONS:,} or more; the last 3 of 23 days become the"
            " test data."
        ),
    ] = 1_000_000,
    banks: Annotated[
        int, typer.Option(help=f"Banks that hold accounts, {MIN_BANKS} or more.")
    ] = 25,
    difficulty: Annotated[
        Difficulty,
        typer.Option(
            help="challenge: a flagged account means an anomaly, as in the original data. "
            "hard: it need not, and odd messages are often normal."
        ),
    ] = Difficulty.CHALLENGE,
    seed: Annotated[int, typer.Option(help="Equal seeds and options give equal data.")] = 0,
    anomaly_rate: Annotated[
        float | None, typer.Option(help="Share of anomalous messages.  \\[default: 0.00104]")
    ] = None,
    accounts: Annotated[
        int | None,
        typer.Option(help="Accounts in all banks together.  \\[default: 0.098 per message]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a data set that is already in DIR.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
) -> None:
    """Generate a payment network's and its banks' data into DIR, and check it for leaks.

    The data has the columns and the folder layout of the challenge and is calibrated to published
    facts about it (docs/use/generator.md).  A million messages take about a minute.

    Example:  pv4fad generate demo-data --transactions 100000 --banks 5 --difficulty hard --seed 1
    """
    rate = {} if anomaly_rate is None else {"anomaly_rate": anomaly_rate}
    settings = Settings(transactions, banks, difficulty, seed, accounts=accounts, **rate)
    with progress_bar() as progress:
        task = progress.add_task("generating", total=len(STEPS))

        def show(step: str) -> None:
            progress.update(task, description=step, completed=STEPS.index(step))

        made = generate(folder, settings, force=force, report=show)
        progress.update(task, description="generated", completed=len(STEPS))
    unexpected = unexpected_leaks(made.leaks, difficulty)
    if as_json:
        print_json({**asdict(made), "unexpected_leaks": [leak.column for leak in unexpected]})
        return
    for split, rows in made.rows.items():
        n = made.anomalies[split]
        out.print(f"{split}: {rows:,} messages, {n:,} anomalous ({n / max(rows, 1):.3%})")
    out.print(f"accounts: {made.accounts:,} in {banks} banks, {made.flagged_accounts:,} flagged")
    out.print(_fact_table(made))
    out.print(_leak_table(made))
    if unexpected:
        names = ", ".join(leak.column for leak in unexpected)
        n_anomalous = sum(made.anomalies.values())
        out.print(
            f"Above {LEAK_LIMIT}, which no single column should be: {names}. "
            f"With {n_anomalous} anomalies chance alone can do this."
        )
    else:
        out.print(f"No single column gives the labels away (limit {LEAK_LIMIT}).")


def _fact_table(made: GeneratedFolder) -> Table:
    table = Table(title="Calibration", title_justify="left")
    table.add_column("figure", no_wrap=True)
    table.add_column("published")
    table.add_column("here")
    for fact in made.facts:
        table.add_row(fact.name, fact.published, fact.here)
    return table


def _leak_table(made: GeneratedFolder) -> Table:
    table = Table(
        title=f"Leak check: the {_N_COLUMNS_SHOWN} most telling of {len(made.leaks)} columns",
        title_justify="left",
    )
    table.add_column("column", no_wrap=True)
    table.add_column("ranked by")
    table.add_column("average precision", justify="right")
    for leak in made.leaks[:_N_COLUMNS_SHOWN]:
        table.add_row(leak.column, leak.ranking, f"{leak.average_precision:.3f}")
    return table
