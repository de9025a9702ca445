"""`pv4fad report`: a run as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import out
from pv4fad.cli.evaluate import Joined, Predictions
from pv4fad.cli.options import Scenario, federation_passphrase
from pv4fad.errors import DataError
from pv4fad.evaluation.scored import default_predictions
from pv4fad.files import require_new_file
from pv4fad.payments.challenge import scoring_splits
from pv4fad.report.content import gather
from pv4fad.report.page import write_page
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import ENVIRONMENT, Passphrase


def command(
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
    scenario: Scenario = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            help="File with the passphrase of all stores; otherwise PV4FAD_PASSPHRASE or"
            " PV4FAD_PASSPHRASE_FILE. Without any, ledgers are left out.",
        ),
    ] = None,
) -> None:
    """Write a report on a run: what was found, what is private, who saw what, what it cost.

    One file without scripts that asks for nothing from outside. It puts together what different
    parties have: the payment network's alerts, and with the passphrase the ledgers of the banks.
    What is missing for a part of it is named in the report.
    """
    require_new_file(report)
    if predictions is not None and not predictions.is_file():
        raise DataError(f"{predictions}: no such file")
    splits = None if folder is None else scoring_splits(folder, scenario)
    content = gather(
        RunFolder(run),
        predictions or default_predictions(run),
        splits,
        _passphrase(key_file),
        joined=joined,
    )
    write_page(report, content)
    out.print(escape(f"The report is in {report}."), soft_wrap=True)
    for gap in content.gaps:
        out.print(escape(f"Not in it: {gap.what}: {gap.why}"), soft_wrap=True)


def _passphrase(key_file: Path | None) -> Passphrase | None:
    """None if none is given: the report can do without ledgers, so it does not ask for one."""
    given = key_file is not None or any(name.startswith(ENVIRONMENT) for name in os.environ)
    return federation_passphrase(key_file) if given else None
