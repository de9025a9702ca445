"""`pv4fad verify`: a run compared with what a trusted third party computes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.federation_key import KeyFile, federation_passphrase
from pv4fad.payments.challenge import scoring_splits, training_split
from pv4fad.run.folder import RunFolder
from pv4fad.verify.training import Verification
from pv4fad.verify.training import verify as verify_run


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data it was trained on.")],
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Which scenario, if DIR has several.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also check every prediction that pv4fad score wrote for DIR."
        ),
    ] = None,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Compute everything again in the clear and compare it with the private run.

    This command sees all data and all secrets: it is for tests and demonstrations.
    Exit code 0: all is equal. 1: something differs. 2: the run has noise, so what training
    released cannot be checked.
    """
    target = RunFolder(run)
    target.require_finished()
    split = training_split(folder, scenario)
    scored = None
    if predictions is not None:
        split, test = scoring_splits(folder, scenario)
        scored = (test, predictions)
    err.print("verify opens all stores and all data: for tests and demonstrations only.")
    result = verify_run(split, target, federation_passphrase(key_file), scored)
    if as_json:
        print_json(asdict(result) | {"all_equal": result.all_equal})
    else:
        _print(result)
    if not result.exact_parts_agree or (not result.has_noise and not result.all_equal):
        fail("the run differs from the trusted third party", 1)
    if result.has_noise:
        fail(
            f"the run has noise (ε = {result.epsilon}): all is equal up to there, but"
            f" {result.noisy[0].what} are meant to differ and cannot be checked; a run with"
            " --epsilon none can",
            2,
        )


def _print(result: Verification) -> None:
    table = Table("compared with the trusted third party", "equal", "of")
    comparisons = (*result.exact, *result.noisy)
    for compared in comparisons:
        table.add_row(compared.what, f"{compared.equal:,}", f"{compared.total:,}")
    out.print(table)
    if result.all_equal and not result.has_noise:
        total = sum(compared.total for compared in comparisons)
        out.print(f"[bold green]100 % equal[/]: all {total:,} values.")
