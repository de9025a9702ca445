"""`pv4fad score`, `refresh` and `verify`: what is done with a finished run on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.data_schema import SchemaOfRun, require_schema_of
from pv4fad.cli.options import (
    AsJson,
    KeyOfAll,
    RunPath,
    Scenario,
    Workers,
    federation_key,
)
from pv4fad.cli.progress import cost_table, learned_lines, phase_display
from pv4fad.errors import BudgetError, WorkerError
from pv4fad.files import require_new_file
from pv4fad.lead.asking import Batching
from pv4fad.lead.on_disk import refresh, score
from pv4fad.lead.score import How, Scored
from pv4fad.lead.simulate import Site
from pv4fad.payments.challenge import account_split, scoring_splits, training_split
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, Budget
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import REFRESH_PHASES, SCORING_PHASES
from pv4fad.run.scoring_record import read_record
from pv4fad.verify.training import Verification, verify


def score_command(
    run: RunPath,
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
    bank_positives_per_day: Annotated[
        int,
        typer.Option(
            min=0,
            help="Metered runs: positive answers that every bank allows a day (its own limit).",
        ),
    ] = DEFAULT_BUDGET.positives_per_day,
    bank_metered_release: Annotated[
        int, typer.Option(min=0, help="Metered runs: raise it to go on after answers were stopped.")
    ] = DEFAULT_BUDGET.release,
    workers: Workers = None,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    key: KeyOfAll = None,
    as_json: AsJson = False,
) -> None:
    """Score the test split of DIR privately: this command plays all parties.

    Banks answer one bit about an account, where that bit can change a decision, in a fixed number
    of rounds.  Accounts that were not met before are matched first, in padded tables; that happens
    in every call, whether there are any or not.  If it is interrupted, the same command carries on.
    """
    target = RunFolder(run)
    document = target.require_finished()
    outside_the_claim, words = document.privacy.outside_the_claim, document.data_schema.words
    require_new_file(predictions)
    read_record(predictions)  # of a call that was killed just before the predictions, or none
    how = How(alert_share, Batching(batch, layers))
    require_schema_of(target, folder, schema)
    splits = scoring_splits(folder, scenario)
    site = Site(
        federation_key(key),
        workers=workers,
        layers_per_day=bank_layers_per_day,
        budget=Budget(bank_positives_per_day, bank_metered_release),
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
    for line in learned_lines(scored.record, words):
        out.print(escape(line), soft_wrap=True)
    out.print(escape(outside_the_claim), soft_wrap=True)
    out.print(escape(f"{scored.table.height:,} predictions are in {predictions}."), soft_wrap=True)


def _summary(scored: Scored, predictions: Path) -> dict[str, object]:
    record = scored.record.model_dump(mode="json", exclude={"traffic", "format", "version"})
    return record | {
        "predictions": str(predictions),
        "rows": scored.table.height,
        "layers": scored.layers,
    }


def refresh_command(
    run: RunPath,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Data with the banks' account files, in its test split if it has one.",
        ),
    ],
    *,
    workers: Workers = None,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    key: KeyOfAll = None,
    as_json: AsJson = False,
) -> None:
    """Match all accounts again, with the banks' present records and new keys for every party.

    Use it when bank records have changed, so that scores show the change, or to replace the
    encryption keys. All blocks of all tables are matched, so that nobody learns what has changed;
    then the old shares and keys are deleted. The model stays as it is, and no ε is spent. The
    payment network forgets the bits it was told, and may ask about an account once more. If it is
    interrupted, the same command carries on.
    """
    target = RunFolder(run)
    document = target.require_finished()
    require_schema_of(target, folder, schema)
    split = account_split(folder, scenario)
    site = Site(federation_key(key), workers=workers)
    try:
        with phase_display(REFRESH_PHASES) as report:
            costs = refresh(split, target, site, report)
    except (WorkerError, KeyboardInterrupt):
        err.print("Not finished; repeat the command to carry on.", soft_wrap=True)
        raise
    if as_json:
        print_json({"run_id": document.run_id, "phases": [cost.model_dump() for cost in costs]})
        return
    out.print(cost_table(costs))
    text = document.data_schema.words(
        "All {records} in {run} are matched with those in {split}, under new keys; the old shares"
        " and keys are deleted.",
        run=run,
        split=split,
    )
    out.print(escape(text), soft_wrap=True)


def verify_command(
    run: RunPath,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data it was trained on.")],
    *,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also check every prediction that pv4fad score wrote for DIR."
        ),
    ] = None,
    key: KeyOfAll = None,
    as_json: AsJson = False,
) -> None:
    """Compute everything again in the clear and compare it with the private run.

    This command sees all data and all secrets: it is for tests and demonstrations.
    Exit code 0: all is equal. 1: something differs. 2: the run has noise, so what training
    released cannot be checked.
    """
    target = RunFolder(run)
    target.require_finished()
    require_schema_of(target, folder, schema)
    split = training_split(folder, scenario)
    scored = None
    if predictions is not None:
        split, test = scoring_splits(folder, scenario)
        scored = (test, predictions)
    err.print("verify opens all stores and all data: for tests and demonstrations only.")
    result = verify(split, target, federation_key(key), scored)
    if as_json:
        print_json(asdict(result) | {"all_equal": result.all_equal})
    else:
        _print_comparison(result)
    if not result.exact_parts_agree or (not result.has_noise and not result.all_equal):
        fail("the run differs from the trusted third party", 1)
    if result.has_noise:
        fail(
            f"the run has noise (ε = {result.epsilon}): all is equal up to there, but"
            f" {result.noisy[0].what} are meant to differ and cannot be checked; a run with"
            " --epsilon none can",
            2,
        )


def _print_comparison(result: Verification) -> None:
    table = Table("compared with the trusted third party", "equal", "of")
    comparisons = (*result.exact, *result.noisy)
    for compared in comparisons:
        table.add_row(compared.what, f"{compared.equal:,}", f"{compared.total:,}")
    out.print(table)
    if result.all_equal and not result.has_noise:
        total = sum(compared.total for compared in comparisons)
        out.print(f"[bold green]100 % equal[/]: all {total:,} values.")
