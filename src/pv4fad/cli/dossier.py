"""`pv4fad dossier`: the file for a supervisor."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.audit.log_file import LogFile
from pv4fad.cli.console import out
from pv4fad.cli.data_schema import SchemaOfRun, require_schema_of
from pv4fad.cli.evaluate import Joined, Predictions
from pv4fad.cli.options import KeyOfAllIfAny, Scenario, federation_key_if_given
from pv4fad.cli.origin import origin
from pv4fad.errors import DataError
from pv4fad.evaluation.scored import default_predictions
from pv4fad.files import require_new_folder
from pv4fad.payments.challenge import scoring_splits
from pv4fad.report.content import ReportContent, gather
from pv4fad.report.dossier.integrity import integrity, logs_in
from pv4fad.report.dossier.pages import Dossier, write_dossier
from pv4fad.report.dossier.processing import processing
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import RootKey


def dossier_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The data that was scored.", show_default=False),
    ] = None,
    *,
    to: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="New folder.")],
    predictions: Predictions = None,
    joined: Joined = False,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="What a party has exported with pv4fad audit export; may be repeated.",
        ),
    ] = None,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    key: KeyOfAllIfAny = None,
) -> None:
    """Write the file for a supervisor: a page for each question, and the JSON behind them.

    What is processed and by whom, claims, what each party has learned, attacks, validation of the
    model, versions and signatures. Pages print well, have no scripts and ask for nothing from
    outside. What is missing is named, with how to get it; legal roles are for you to fill in.
    """
    require_new_folder(to)
    if predictions is not None and not predictions.is_file():
        raise DataError(f"{predictions}: no such file")
    root_key = federation_key_if_given(key)
    runs, file, splits = RunFolder(run), predictions or default_predictions(run), None
    require_schema_of(runs, folder, schema)
    if folder is not None:
        splits = scoring_splits(folder, scenario)
    content = gather(runs, file, splits, root_key, joined=joined)
    dossier = dossier_of(runs, content, file, root_key, log or [])
    write_dossier(to, dossier)
    out.print(escape(f"The dossier is in {to / 'index.html'}."), soft_wrap=True)
    for gap in dossier.gaps:
        out.print(escape(f"Not in it: {gap.what}: {gap.why}"), soft_wrap=True)


def dossier_of(
    run: RunFolder,
    content: ReportContent,
    predictions: Path,
    root_key: RootKey | None,
    logs: list[Path],
) -> Dossier:
    """With these logs; without any, with those in the stores."""
    document = content.document
    read = [LogFile.read(log) for log in logs]
    if not read and root_key is not None:
        read = logs_in(run, processing(document).parties, root_key)
    checked = integrity(run, document, predictions, origin(), read)
    return Dossier.of(content, checked, datetime.now(UTC))
