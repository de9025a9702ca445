"""`pv4fad attack`: play each party of a finished run as an attacker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.attack.epsilon import RELEASES
from pv4fad.attack.findings import FILE_NAME, Attack
from pv4fad.attack.play import Attacked, Options, attack
from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.data_schema import SchemaOfRun, require_schema_of
from pv4fad.cli.options import AsJson, KeyOfAll, RunPath, Scenario, Workers, federation_key
from pv4fad.errors import DataError
from pv4fad.evaluation.scored import default_predictions
from pv4fad.payments.challenge import scoring_splits
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.folder import RunFolder
from pv4fad.words import Words
from pv4fad.workers import WorkerPool

EXCEEDED = "an attacker got more than the claim allows: see DOES NOT HOLD above"


def attack_command(
    run: RunPath,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data of all parties: the truth.")
    ],
    *,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Another run on the same records; may be repeated."),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What pv4fad score wrote.", show_default=False),
    ] = None,
    releases: Annotated[
        int, typer.Option(min=1000, help="Of the audit of ε: releases in each of two worlds.")
    ] = RELEASES,
    worlds: Annotated[
        int, typer.Option(min=0, help="Small runs of each of two worlds, to be told apart.")
    ] = Options.worlds,
    workers: Workers = None,
    schema: SchemaOfRun = None,
    scenario: Scenario = None,
    key: KeyOfAll = None,
    as_json: AsJson = False,
) -> None:
    """Attack a finished run as each of its parties, with what that party's store holds.

    The data in DIR is the truth that the attackers are compared with, so this command is not
    private: it is for those who want to see what the protection does. The results are also written
    to RUN/payment-network/attack.json, in place of those of an earlier attack; pv4fad report finds
    them there.
    """
    document = RunFolder(run).require_finished()
    require_schema_of(RunFolder(run), folder, schema)
    if predictions is not None and not predictions.is_file():
        raise DataError(f"{predictions}: not found")
    files = [predictions or default_predictions(run), *map(default_predictions, also or ())]
    with WorkerPool(workers) as pool:
        found = attack(
            [
                Attacked(RunFolder(one), file)
                for one, file in zip((run, *(also or ())), files, strict=True)
            ],
            scoring_splits(folder, scenario),
            federation_key(key),
            Options(releases, worlds),
            pool=pool,
            report=lambda text: err.print(escape(document.data_schema.words(text)), soft_wrap=True),
        )
    found.write(run / PAYMENT_NETWORK / FILE_NAME)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        for line in lines_of(found, document.data_schema.words):
            out.print(escape(line), soft_wrap=True)
    if found.exceeded:
        fail(EXCEEDED, 1)


def lines_of(found: Attack, words: Words) -> Iterator[str]:
    """Who wants to know what, once; below it how well it went."""
    title = ""
    for one in found.findings:
        if title != (title := words.of_file(f"{one.who}: {one.target}")):
            yield title
        numbers = f"{one.measure}: {one.found:.3f}"
        if one.guess is not None:
            numbers += f" (without the run {one.guess:.3f})"
        numbers += f", {one.n:,} cases"
        if one.allowed is not None:
            holds = "holds" if one.within_claim else "DOES NOT HOLD"
            numbers += f"; claim: at most {one.allowed:.6g}, {holds}"
        if one.note:
            numbers += f"; {words.of_file(one.note)}"
        yield f"  {numbers}"
