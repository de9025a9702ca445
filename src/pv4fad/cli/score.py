"""`pv4fad score`: new transactions scored with a run's model, all parties on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import err, out, print_json
from pv4fad.cli.federation_key import KeyFile, federation_passphrase
from pv4fad.cli.learned import learned_lines
from pv4fad.cli.phases import cost_table, phase_display
from pv4fad.errors import BudgetError, WorkerError
from pv4fad.files import require_new_file
from pv4fad.lead.asking import Batching
from pv4fad.lead.on_disk import score
from pv4fad.lead.score import How, Scored
from pv4fad.lead.simulate import Site
from pv4fad.payments.challenge import scoring_splits
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import SCORING_PHASES
from pv4fad.run.scoring_record import read_record


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Data with train (as the run was trained on) and test split."
        ),
    ],
    *,
    predictions: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="New CSV file: MessageId, Score, Alert, Level, LocalScore, Reasons.",
        ),
    ],
    alert_share: Annotated[
        float | None,
        typer.Option(
            help="Share of payments expected to become alerts, such as 0.001; at most, and by"
            " default, what the run was trained for."
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(help="Votes only: transactions per batch; the result stays the same.")
    ] = Batching.transactions,
    layers: Annotated[
        int,
        typer.Option(
            help="Votes only: banks are asked for a multiple of so many layers, which is what they"
            " see of how many transactions an account has."
        ),
    ] = Batching.layers,
    bank_layers_per_day: Annotated[
        int,
        typer.Option(
            min=1, help="Rounds or layers that every bank answers per day (a bank's own limit)."
        ),
    ] = DEFAULT_LAYERS_PER_DAY,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes. Default: one per core.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Which scenario, if DIR has several.")
    ] = None,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable summary.")] = False,
) -> None:
    """Score the test split of DIR privately: this command plays all parties.

    Banks answer one bit about an account, where that bit can change a decision, in a fixed number
    of rounds.  Accounts that were not met before are matched first, in padded tables; that happens
    in every call, whether there are any or not.  If it is interrupted, the same command carries on.
    """
    target = RunFolder(run)
    outside_the_claim = target.require_finished().privacy.outside_the_claim
    require_new_file(predictions)
    read_record(predictions)  # of a call that was killed just before the predictions, or none
    how = How(alert_share, Batching(batch, layers))
    splits = scoring_splits(folder, scenario)
    site = Site(
        federation_passphrase(key_file), workers=workers, layers_per_day=bank_layers_per_day
    )
    try:
        with phase_display(SCORING_PHASES) as report:
            scored = score(splits, target, predictions, site, how=how, report=report)
    except (BudgetError, WorkerError, OSError, KeyboardInterrupt):
        err.print("Not finished; repeat the command to carry on.", soft_wrap=True)
        raise
    if as_json:
        print_json(_summary(scored, predictions) | {"outside_the_claim": outside_the_claim})
        return
    out.print(cost_table(scored.record.phases))
    for line in learned_lines(scored.record):
        out.print(escape(line), soft_wrap=True)
    out.print(escape(outside_the_claim), soft_wrap=True)
    out.print(escape(f"{scored.table.height:,} predictions are in {predictions}."), soft_wrap=True)


def _summary(scored: Scored, predictions: Path) -> dict[str, object]:
    record = scored.record.model_dump(mode="json", exclude={"traffic", "format", "version"})
    return record | {
        "predictions": str(predictions),
        "transactions": scored.table.height,
        "layers": scored.layers,
    }
