"""`pv4fad data convert` and `pv4fad data labels`: ISO 20022 messages, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pv4fad.cli.console import out, progress_bar
from pv4fad.errors import ParameterError
from pv4fad.files import require_new_file, whole_file
from pv4fad.payments.convert import Conversion, Target, convert
from pv4fad.payments.iso20022.returns import labels_from_returns
from pv4fad.payments.loading import load_transactions
from pv4fad.payments.schema import LABEL


def convert_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Transactions (.csv, .parquet, .xml, .xml.gz, a folder of messages), or a whole"
            " challenge folder, a scenario, or a split.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            help="New file or folder. For pacs008 an .xml or .xml.gz file, or a folder of files.",
        ),
    ],
    *,
    to: Annotated[Target, typer.Option("--to", help="Kind of the target.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels of a source that has none: UETR or MessageId, and Label. Default for"
            " messages: the file SOURCE.labels.csv beside them.",
        ),
    ] = None,
    per_file: Annotated[
        int, typer.Option(help="pacs008: transactions in each file of a folder.")
    ] = 50_000,
    gzip: Annotated[
        bool, typer.Option("--gzip", help="pacs008: compress the files of a folder.")
    ] = False,
    drop_bad_rows: Annotated[
        bool,
        typer.Option(
            "--drop-bad-rows", help="Go on without bad rows; they are counted and reported."
        ),
    ] = False,
) -> None:
    """Convert transactions between challenge CSV, Parquet and ISO 20022 (pacs.008).

    Labels, which a message cannot carry, go to TARGET.labels.csv. In a whole folder the banks'
    files are converted to csv or parquet too; with pacs008 they are copied. What is dropped,
    changed or counted is printed, one line for each.

    Example:  pv4fad data convert demo-data demo-xml --to pacs008
    """
    rows = {"reading": 0, "writing": 0}
    with progress_bar() as progress:
        tasks = {step: progress.add_task(step, total=None) for step in rows}

        def show(step: str, n: int) -> None:
            rows[step] += n
            progress.update(tasks[step], completed=rows[step])

        notes = convert(
            source,
            target,
            Conversion(
                to=to,
                labels=labels,
                per_file=per_file,
                compress=gzip,
                on_bad_rows="drop" if drop_bad_rows else "raise",
                progress=show,
            ),
        )
        for step, task in tasks.items():
            progress.update(task, total=rows[step])
    for note in notes:
        out.print(f"note: {note}", markup=False, soft_wrap=True)
    out.print(f"{target}: {rows['writing']:,} transactions", markup=False, soft_wrap=True)


def labels_command(
    payments: Annotated[
        Path, typer.Argument(metavar="PAYMENTS", help="Transactions, of any kind that is read.")
    ],
    returns: Annotated[
        Path,
        typer.Argument(metavar="RETURNS", help="pacs.002 and camt.056: a file or a folder."),
    ],
    *,
    file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="New file, .csv: MessageId, Label.")
    ],
) -> None:
    """Make a label file of rejections (pacs.002) and recalls (camt.056).

    A rejected or recalled payment is not an anomaly for that: look at what you train on.
    """
    if file.suffix.lower() != ".csv":
        raise ParameterError(f"{file}: the name has to end in .csv")
    require_new_file(file)
    transactions = load_transactions(payments, labels_required=False).frame
    made = labels_from_returns(transactions, returns)
    with whole_file(file) as target:
        made.frame.write_csv(target)
    found = ", ".join(f"{made.counts[name]:,} {name}" for name in ("rejected", "recalled"))
    out.print(f"messages: {found}, {made.counts['unknown']:,} about unknown payments")
    if n := made.counts["other statuses"]:
        out.print(f"not counted: {n:,} statuses other than a rejection")
    n_returned = int(made.frame[LABEL].sum())
    out.print(f"{file}: {n_returned:,} of {made.frame.height:,} transactions have label 1")
