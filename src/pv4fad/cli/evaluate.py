"""`pv4fad evaluate` and `report`: what a run has found, in numbers and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.cli.console import out, print_json
from pv4fad.cli.data_schema import SchemaOfRun, require_schema_of
from pv4fad.cli.options import AsJson, KeyOfAllIfAny, RunPath, Scenario, federation_key_if_given
from pv4fad.errors import DataError, ParameterError
from pv4fad.evaluation.evaluate import ALONE, HEADINGS, JOINED, Evaluation, evaluate
from pv4fad.evaluation.joined import joined_scores
from pv4fad.evaluation.scored import LOCAL_SCORE, ScoredTransactions, default_predictions
from pv4fad.files import require_new_file, write_whole
from pv4fad.payments.challenge import scoring_splits
from pv4fad.report.charts import precision_recall
from pv4fad.report.content import gather
from pv4fad.report.page import write_page
from pv4fad.report.render import render_drawing
from pv4fad.report.texts import estimate_text, found_text
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.scoring_record import require_run

NOT_COMPARED = (
    f"The predictions have no column {LOCAL_SCORE}, as those of votes, so they are not compared"
    " with what the {lead} finds alone."
)
NO_RECORD = "The origin of the predictions cannot be verified: the record file is missing."
HOW_SURE = (
    "Intervals: 95 %, bootstrap over the {rows} of this test period. They say nothing about"
    " another draw of the noise, or about other data."
)

Predictions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What pv4fad score wrote for DIR. Default: payment-network/predictions.csv in RUN.",
        show_default=False,
    ),
]

Joined = Annotated[
    bool,
    typer.Option(
        "--joined",
        help="For comparison, also fit a model to all parties' data in one place. Not private.",
    ),
]


def evaluate_command(
    run: RunPath,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data that was scored, with labels.")
    ],
    *,
    predictions: Predictions = None,
    joined: Joined = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the precision-recall curves to this new SVG file."
        ),
    ] = None,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run's predictions with the labels of the test split of DIR.

    Average precision, what is found among the highest 0.05, 0.1 or 0.2 % of all
    transactions, and what the alerts of the run are worth: with the banks, and by the payment
    network alone. Labels are read here only.
    """
    target = RunFolder(run)
    document = target.require_finished()
    words = document.data_schema.words
    if plot is not None:
        _require_svg(plot)
    require_schema_of(target, folder, schema)
    splits = scoring_splits(folder, scenario)
    predictions = predictions or default_predictions(run)
    record = require_run(predictions, document.run_id)
    scored = ScoredTransactions.read(document.data_schema, splits[1], predictions)
    scored.require_labels(splits[1])  # before a model is fitted
    found = joined_scores(document.data_schema, *splits) if joined else None
    result = evaluate(scored, splits[1], found)
    if plot is not None:
        write_whole(plot, render_drawing(precision_recall(result.detectors, words)))
    if as_json:
        print_json(_summary(document, result))
        return
    out.print(evaluation_table(document, result))
    out.print(words(HOW_SURE), soft_wrap=True)
    out.print(escape(document.privacy.outside_the_claim), soft_wrap=True)
    if result.of(ALONE) is None:
        out.print(words(NOT_COMPARED), soft_wrap=True)
    if record is None:
        out.print(NO_RECORD, soft_wrap=True)
    if plot is not None:
        out.print(escape(f"The curves are in {plot}."), soft_wrap=True)


def _require_svg(plot: Path) -> None:
    if plot.suffix != ".svg":
        raise ParameterError(f"{plot}: the curves are SVG; choose a file name that ends in .svg")
    require_new_file(plot)


def evaluation_table(document: RunDocument, result: Evaluation) -> Table:
    """One column per detector."""
    words = document.data_schema.words
    title = words(
        f"{result.transactions:,} {{rows}}, {result.anomalies:,} of them anomalous;"
        f" ε = {document.privacy.epsilon}"
    )
    headings = (words(HEADINGS[detector.name]) for detector in result.detectors)
    table = Table("", *headings, title=escape(title))
    estimates = (estimate_text(detector.average_precision) for detector in result.detectors)
    table.add_row("average precision", *estimates)
    if result.of(JOINED) is not None:
        for name, share in (("to joined", result.to_joined), ("gap closed", result.gap_closed)):
            shares = [share(detector) for detector in result.detectors]
            table.add_row(name, *("-" if value is None else f"{value:.2f}" for value in shares))
    for name, found in result.rows():
        table.add_row(name, *(found_text(at, result.anomalies) for at in found))
        table.add_row("  precision", *(f"{at.precision:.2f}" for at in found))
    return table


def _summary(document: RunDocument, result: Evaluation) -> dict[str, Any]:
    return {
        "run_id": document.run_id,
        "epsilon": document.privacy.epsilon,
        "outside_the_claim": document.privacy.outside_the_claim,
        "rows": result.transactions,
        "anomalies": result.anomalies,
        "intervals": document.data_schema.words(HOW_SURE),
        "detectors": result.numbers(),
    }


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The data that was scored.", show_default=False),
    ] = None,
    *,
    report: Annotated[Path, typer.Option("--out", metavar="FILE", help="New HTML file.")] = Path(
        "report.html"
    ),
    predictions: Predictions = None,
    joined: Joined = False,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    key: KeyOfAllIfAny = None,
) -> None:
    """Write a report on a run: what was found, what is private, who saw what, what it cost.

    One file without scripts that asks for nothing from outside. It puts together what different
    parties have: the payment network's alerts, and with the root key the ledgers of the banks.
    What is missing for a part of it is named in the report.
    """
    require_new_file(report)
    if predictions is not None and not predictions.is_file():
        raise DataError(f"{predictions}: no such file")
    target, splits = RunFolder(run), None
    require_schema_of(target, folder, schema)
    if folder is not None:
        splits = scoring_splits(folder, scenario)
    content = gather(
        target,
        predictions or default_predictions(run),
        splits,
        federation_key_if_given(key),
        joined=joined,
    )
    write_page(report, content)
    out.print(escape(f"The report is in {report}."), soft_wrap=True)
    for gap in content.gaps:
        out.print(escape(f"Not in it: {gap.what}: {gap.why}"), soft_wrap=True)
