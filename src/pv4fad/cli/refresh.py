"""`pv4fad refresh`: match all accounts again, because bank records have changed or keys are old."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import err, out, print_json
from pv4fad.cli.federation_key import KeyFile, federation_passphrase
from pv4fad.cli.phases import cost_table, phase_display
from pv4fad.errors import WorkerError
from pv4fad.lead.on_disk import refresh
from pv4fad.lead.simulate import Site
from pv4fad.payments.challenge import account_split
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import REFRESH_PHASES


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Data with the banks' account files, in its test split if it has one.",
        ),
    ],
    *,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes. Default: one per core.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Which scenario, if DIR has several.")
    ] = None,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable summary.")] = False,
) -> None:
    """Match all accounts again, with the banks' present records and new keys for every party.

    Use it when bank records have changed, so that scores show the change, or to replace the
    encryption keys. All blocks of all tables are matched, so that nobody learns what has changed;
    then the old shares and keys are deleted. The model stays as it is, and no ε is spent. The
    payment network forgets the bits it was told, and may ask about an account once more. If it is
    interrupted, the same command carries on.
    """
    target = RunFolder(run)
    run_id = target.require_finished().run_id
    split = account_split(folder, scenario)
    site = Site(federation_passphrase(key_file), workers=workers)
    try:
        with phase_display(REFRESH_PHASES) as report:
            costs = refresh(split, target, site, report)
    except (WorkerError, KeyboardInterrupt):
        err.print("Not finished; repeat the command to carry on.", soft_wrap=True)
        raise
    if as_json:
        print_json({"run_id": run_id, "phases": [cost.model_dump() for cost in costs]})
        return
    out.print(cost_table(costs))
    out.print(
        escape(
            f"All accounts in {run} are matched with the records in {split}, under new keys; the"
            " old shares and keys are deleted."
        ),
        soft_wrap=True,
    )
