"""`pv4fad data`: look at data before anything is done with it, and turn it into other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from pv4fad.cli import data_convert
from pv4fad.cli.console import err, out, print_json, progress_bar
from pv4fad.cli.data_schema import SchemaFile, data_schema
from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.summary import (
    SideSummary,
    SplitSummary,
    summarise_payments,
    summarise_split,
)
from pv4fad.payments.challenge import find_partitions, read_partition
from pv4fad.payments.schema import FLAG_MEANINGS, NO_FLAG
from pv4fad.payments.summary import PartitionSummary
from pv4fad.schema import Schema
from pv4fad.tables.sheet import OnBadRows
from pv4fad.words import Words

app = typer.Typer(name="data", help="Check data, and convert it.", no_args_is_help=True)

app.command("convert")(data_convert.convert_command)
app.command("labels")(data_convert.labels_command)

_N_INSTITUTIONS_SHOWN = 5

Summary = PartitionSummary | SplitSummary


@app.command()
def check(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A challenge folder (with scenarios.txt), a scenario, or a train or test folder;"
            " or a folder of other data with its schema (docs/use/schema.md).",
        ),
    ],
    drop_bad_rows: Annotated[
        bool,
        typer.Option(
            "--drop-bad-rows", help="Go on without bad rows; they are counted and reported."
        ),
    ] = False,
    schema: SchemaFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
) -> None:
    """Read every file of DIR, check every row, and print a summary.

    Exit code 0: all is well.

    Exit code 2: something is wrong. Each problem is one line that names the file,
    the column, the number of bad rows and an example.
    """
    splits, settled = find_partitions(folder), data_schema(folder, schema)
    summaries, problems = _check_partitions(settled, splits, "drop" if drop_bad_rows else "raise")
    if as_json:
        print_json({"partitions": [_document(*item) for item in summaries], "problems": problems})
    else:
        for partition, summary in summaries:
            out.print(f"[bold]{escape(str(partition))}[/]", soft_wrap=True)
            if isinstance(summary, SplitSummary):
                out.print(_schema_table(summary, settled.words))
            else:
                out.print(_table(summary, settled.words))
            for note in summary.notes:
                out.print(f"note: {note}", markup=False, soft_wrap=True)
        if not problems:
            out.print("No problems found.")
    for problem in problems:
        err.print(f"[bold red]error:[/] {escape(problem)}", soft_wrap=True)
    if problems:
        raise SystemExit(2)


def _check_partitions(
    schema: Schema, folders: Sequence[Path], on_bad_rows: OnBadRows
) -> tuple[list[tuple[Path, Summary]], list[str]]:
    """The summaries of the good splits, and one line for everything wrong with the others."""
    summaries: list[tuple[Path, Summary]] = []
    problems: list[str] = []
    with progress_bar() as progress:
        for folder in folders:
            task = progress.add_task(f"checking {escape(str(folder))}", total=None)
            try:
                if schema.format == "payments":
                    summary: Summary = _check_payments(schema, folder, on_bad_rows, progress, task)
                else:
                    summary = summarise_split(schema, folder, on_bad_rows)
                    progress.update(task, total=1, completed=1)
                summaries.append((folder, summary))
            except (DataError, ParameterError) as error:
                problems += [line for line in str(error).splitlines() if line not in problems]
                progress.stop_task(task)
    return summaries, problems


def _check_payments(
    schema: Schema, folder: Path, on_bad_rows: OnBadRows, progress: Progress, task: TaskID
) -> PartitionSummary:
    # One step for each file; the last one is routing and counting.
    progress.update(task, total=len(read_partition(folder).accounts) + 2)
    advance = partial(progress.advance, task)
    summary = summarise_payments(schema, folder, on_bad_rows, after_file=advance)
    advance()
    return summary


def _document(folder: Path, summary: Summary) -> dict[str, object]:
    return {"folder": str(folder), **asdict(summary), "label_rate": summary.label_rate}


def _schema_table(s: SplitSummary, words: Words) -> Table:
    table = Table(show_header=False)
    table.add_row("schema", escape(s.schema))
    table.add_row(words.forms["rows"], f"{s.rows:,}")
    table.add_row("period", f"{s.first_time:%Y-%m-%d %H:%M} to {s.last_time:%Y-%m-%d %H:%M}")
    table.add_row(
        "labels",
        "none"
        if s.label_rate is None
        else f"{s.anomalous:,} of {s.rows:,} anomalous ({s.label_rate:.3%})",
    )
    for name, side in s.sides.items():
        table.add_row(f"side {name}", words(_side_text(side, s.rows)))
    _add_classes(table, s.holders, words)
    return table


def _add_classes(table: Table, holders: Mapping[str, Mapping[str, int]], words: Words) -> None:
    for holder, classes in holders.items():
        counts = ", ".join(f"{n:,} {name}" for name, n in classes.items() if n)
        total = sum(classes.values())
        text = words(f"{total:,} {'{record}' if total == 1 else '{records}'}: {counts}")
        table.add_row(f"{words.holder} {escape(holder)}", text)


def _side_text(side: SideSummary, rows: int) -> str:
    return (
        f"{{holder}} known in {side.known:,} {{rows}}, unknown in {side.unknown:,}, outside in"
        f" {side.outside:,}; {{record}} found for {side.found / rows:.1%} of the {{rows}}"
    )


def _table(s: PartitionSummary, words: Words) -> Table:
    labels = (
        "none"
        if s.label_rate is None
        else f"{s.n_anomalous:,} of {s.n_transactions:,} anomalous ({s.label_rate:.3%})"
    )
    flagged = {code: n for code, n in s.accounts_by_flag.items() if code != NO_FLAG and n}
    table = Table(show_header=False)
    table.add_row("transactions", f"{s.n_transactions:,}")
    table.add_row(
        "period", f"{s.first_timestamp:%Y-%m-%d %H:%M} to {s.last_timestamp:%Y-%m-%d %H:%M}"
    )
    table.add_row("payments", f"{s.n_payments:,}, {s.n_multi_leg_payments:,} with several legs")
    table.add_row("labels", labels)
    table.add_row("institutions", f"{s.n_senders} senders, {s.n_receivers} receivers")
    table.add_row("banks", f"{s.n_banks} in {s.n_bank_files} files")
    table.add_row("accounts", f"{s.n_accounts:,}, {sum(flagged.values()):,} flagged")
    for code, n in flagged.items():
        table.add_row(f"  flag {code}", f"{n:,} {FLAG_MEANINGS[code]}")
    _add_classes(table, s.accounts_by_class, words)
    table.add_row("ordering accounts found", f"{s.ordering_join_rate:.3%} of the transactions")
    table.add_row(
        "beneficiary accounts found", f"{s.beneficiary_join_rate:.3%} of the transactions"
    )
    table.add_row("institutions without accounts", _institutions(s))
    return table


def _institutions(summary: PartitionSummary) -> str:
    without = summary.institutions_without_accounts
    if not without:
        return "none"
    shown = ", ".join(f"{bic} ({n:,})" for bic, n in list(without.items())[:_N_INSTITUTIONS_SHOWN])
    return f"{len(without)}: {shown}" + (", ..." if len(without) > _N_INSTITUTIONS_SHOWN else "")
