"""`pv4fad score`: new transactions scored with a run's model, all parties on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import err, out, print_json
from pv4fad.cli.federation_key import KeyFile, federation_passphrase
from pv4fad.cli.phases import cost_table, phase_display
from pv4fad.detection.recipe import checked_combiner
from pv4fad.detection.stacked import OUTSIDE_THE_CLAIM
from pv4fad.errors import BudgetError, WorkerError
from pv4fad.files import require_new_file
from pv4fad.parties.bank_scoring import DEFAULT_LAYERS_PER_DAY
from pv4fad.runs.document import SCORING_IS_OUTSIDE
from pv4fad.runs.folder import RunFolder
from pv4fad.runs.partition import scoring_splits
from pv4fad.runs.scoring import Scored, score
from pv4fad.runs.scoring_meter import SCORING_PHASES
from pv4fad.runs.scoring_record import read_record
from pv4fad.runs.scoring_rows import Batching
from pv4fad.runs.site import Site

_SEALED = (
    "The labels of red leaves are sealed: the payment network knows how many of the trees that ask"
    " a bank voted for 1 on each side, and not which."
)


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
        Path, typer.Option("--out", metavar="FILE", help="New CSV file: MessageId, Score.")
    ],
    combiner: Annotated[
        str | None,
        typer.Option(
            help="calibrated, stacked or votes. Default: what the run was trained for. stacked has"
            " labelled training transactions scored first, once per run: outside the ε claim."
        ),
    ] = None,
    details: Annotated[
        bool,
        typer.Option(help="Add label, confidence, votes per side, and where own tests led."),
    ] = False,
    batch: Annotated[
        int, typer.Option(help="Transactions per batch; the result does not depend on it.")
    ] = Batching.transactions,
    layers: Annotated[
        int,
        typer.Option(
            help="Banks are asked for a multiple of so many layers: what they see of how many"
            " transactions an account has."
        ),
    ] = Batching.layers,
    bank_layers_per_day: Annotated[
        int,
        typer.Option(
            min=1, help="Layers that every bank answers per table and day (a bank's own limit)."
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

    Accounts that were not met before are matched first, in padded tables; that happens in every
    call, whether there are any or not.  Interrupted or killed, the same command carries on.
    """
    target = RunFolder(run)
    target.require_finished()
    require_new_file(predictions)
    read_record(predictions)  # of a call that was killed just before the predictions, or none
    batching = Batching(batch, layers)
    chosen = None if combiner is None else checked_combiner(combiner)
    if chosen == "stacked":
        err.print(f"[bold yellow]{OUTSIDE_THE_CLAIM}[/]", soft_wrap=True)
    splits = scoring_splits(folder, scenario)
    site = Site(
        federation_passphrase(key_file), workers=workers, layers_per_day=bank_layers_per_day
    )
    try:
        with phase_display(SCORING_PHASES) as report:
            scored = score(
                splits,
                target,
                predictions,
                site,
                batching=batching,
                details=details,
                combiner=chosen,
                report=report,
            )
    except (BudgetError, WorkerError, OSError, KeyboardInterrupt):
        err.print("Not finished; the same command carries on where it was.", soft_wrap=True)
        raise
    if as_json:
        print_json(_summary(scored, predictions))
    else:
        _print(scored, predictions)


def _summary(scored: Scored, predictions: Path) -> dict[str, object]:
    document = scored.document
    return {
        "run_id": document.run_id,
        "predictions": str(predictions),
        "transactions": scored.transactions,
        "combiner": scored.combiner,
        "layers": scored.layers,
        "red_labels": _red_labels(scored),
        "outside_the_claim": " ".join(_outside_the_claim(scored)),
        "phases": [cost.model_dump() for cost in scored.phases],
    }


def _print(scored: Scored, predictions: Path) -> None:
    out.print(cost_table(scored.phases))
    out.print(escape(f"{scored.transactions:,} predictions are in {predictions}."), soft_wrap=True)
    out.print(_red_labels(scored), soft_wrap=True)
    out.print(f"Combiner: {scored.combiner}.", soft_wrap=True)
    for text in _outside_the_claim(scored):
        out.print(text, soft_wrap=True)


def _outside_the_claim(scored: Scored) -> list[str]:
    stacked = [OUTSIDE_THE_CLAIM] if scored.combiner == "stacked" else []
    return [SCORING_IS_OUTSIDE, *stacked]


def _red_labels(scored: Scored) -> str:
    if scored.document.parameters.mode == "sealed":
        return _SEALED
    return "The (noisy) labels of red leaves are released to the payment network."
