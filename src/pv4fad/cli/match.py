"""`pv4fad match refresh`: the banks' records have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import err, out, print_json
from pv4fad.cli.federation_key import KeyFile, federation_passphrase
from pv4fad.cli.phases import cost_table, phase_display
from pv4fad.errors import WorkerError
from pv4fad.lead.refresh import match_anew
from pv4fad.lead.site import Site
from pv4fad.payments.challenge import account_split
from pv4fad.run.folder import RunFolder
from pv4fad.run.scoring_meter import MATCHING_PHASES

app = typer.Typer(
    help="The join of the payment network's accounts with the banks'.", no_args_is_help=True
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Accounts = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="Data with the banks' account files, in its test split if it has one."
    ),
]
Workers = Annotated[int | None, typer.Option(help="Worker processes. Default: one per core.")]
Scenario = Annotated[str | None, typer.Option(help="Which scenario, if DIR has several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable summary.")]


@app.callback()
def group() -> None:
    """The join of the payment network's accounts with the banks'."""


@app.command()
def refresh(
    run: Run,
    folder: Accounts,
    *,
    workers: Workers = None,
    scenario: Scenario = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Match all accounts anew, because bank records have changed; scores then show the change.

    Always all blocks of all tables, so that nobody learns what has changed, and with new keys
    everywhere. The model stays as it is; no ε is spent. The payment network forgets the bits it was
    told, and may ask about an account once more. Interrupted, the same command carries on.
    """
    rematch(
        run, folder, scenario, key_file, workers=workers, as_json=as_json, records_may_differ=True
    )


def rematch(
    run: Path,
    folder: Path,
    scenario: str | None,
    key_file: Path | None,
    *,
    workers: int | None,
    as_json: bool,
    records_may_differ: bool,
) -> None:
    """A match of everything, and what it took."""
    target = RunFolder(run)
    target.require_finished()
    split = account_split(folder, scenario)
    site = Site(federation_passphrase(key_file), workers=workers)
    try:
        with phase_display(MATCHING_PHASES) as report:
            done = match_anew(
                split, target, site, records_may_differ=records_may_differ, report=report
            )
    except (WorkerError, KeyboardInterrupt):
        err.print("Not finished; the same command carries on where it was.", soft_wrap=True)
        raise
    if as_json:
        phases = [cost.model_dump() for cost in done.phases]
        print_json({"run_id": done.document.run_id, "phases": phases})
        return
    out.print(cost_table(done.phases))
    out.print(
        escape(
            f"All accounts in {run} are matched with the records in {split}, under new keys; the"
            " old shares and keys are deleted."
        ),
        soft_wrap=True,
    )
