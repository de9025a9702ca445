"""`pv4fad train`: all parties of a federation on this machine, from a data folder to a model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from pv4fad.cli.console import err, out, print_json
from pv4fad.cli.data_schema import SchemaFile, data_schema, require_schema_of
from pv4fad.cli.options import KeyOfAll, Scenario, Workers, federation_key
from pv4fad.cli.progress import cost_table, phase_display
from pv4fad.errors import ParameterError
from pv4fad.lead.on_disk import resume, train
from pv4fad.lead.settings import TrainingOptions, TrainingSettings, read_options
from pv4fad.lead.simulate import Site
from pv4fad.payments.challenge import training_split
from pv4fad.privacy.effective import guessing_bound, is_weak
from pv4fad.privacy.epsilon import epsilon_text, parse_epsilon
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import TRAINING_PHASES
from pv4fad.words import Words

NO_PRIVACY = (
    "ε is none: NO NOISE, NO PRIVACY.\nThe {lead} gets exact counts, which can reveal any single"
    " {record}.\nFor tests and demonstrations only."
)


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Data: a challenge folder, a scenario, or its train."),
    ],
    *,
    run: Annotated[Path, typer.Option("--out", metavar="RUN", help="New folder for the run.")],
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy loss of this run for one account record, such as 1.0; no default."
            " 'none' switches the noise off.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="evidence (default): noisy counts; paper: random decision trees."),
    ] = None,
    noise: Annotated[str | None, typer.Option(help="distributed (default) or per-bank.")] = None,
    honest_banks: Annotated[
        int | None,
        typer.Option(
            help="Distributed noise: banks assumed to add their noise and keep it to themselves."
            " Default: half of the banks. 1: no bank relies on another."
        ),
    ] = None,
    metered: Annotated[
        bool | None,
        typer.Option(
            "--metered",
            help="Answers go by way of the aggregator, which counts the positive ones: limits what"
            " a payment network that cheats can learn.",
        ),
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(
            help="evidence: fine (default) counts mild and severe flags apart, coarse only"
            " ordinary accounts, with half the noise."
        ),
    ] = None,
    absent: Annotated[
        str | None,
        typer.Option(
            help="evidence: an account that no bank has is a class of its own (class, default),"
            " or cannot be told from an ordinary one (ordinary)."
        ),
    ] = None,
    alert_share: Annotated[
        float | None,
        typer.Option(help="evidence: share of payments expected to become alerts. Default 0.002."),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="paper: decisions (default), one bit where it matters; votes, a vote total for"
            " each side of a payment."
        ),
    ] = None,
    trees: Annotated[int | None, typer.Option(help="paper: number of trees.")] = None,
    height: Annotated[int | None, typer.Option(help="paper: tests on a path.")] = None,
    bound: Annotated[
        int | None,
        typer.Option(help="paper: most weight that one account contributes. Default 1."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Of sampling and trees only. By default drawn, and secret."),
    ] = None,
    workers: Workers = None,
    bank_limit: Annotated[
        str | None,
        typer.Option(help="ε that every bank allows in total. Default: this run's ε."),
    ] = None,
    scenario: Scenario = None,
    schema: SchemaFile = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with these options; the command line overrides it."),
    ] = None,
    desk_labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labels from the alert desk (pv4fad desk labels), in place of those of the data.",
        ),
    ] = None,
    key: KeyOfAll = None,
    carry_on: Annotated[
        bool, typer.Option("--resume", help="Carry on an interrupted run.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print run.json instead of a summary.")
    ] = False,
) -> None:
    """Train privately: this command plays all parties, each with a folder of its own in RUN.

    The root key locks the stores of all parties. What --key names is made if there is
    none.
    """
    given = {} if config is None else read_options(config)
    typed = {
        "epsilon": epsilon, "model": model, "noise": noise, "honest_banks": honest_banks,
        "metered": metered, "sets": sets, "absent": absent, "alert_share": alert_share,
        "scoring": scoring, "trees": trees, "height": height, "bound": bound, "seed": seed,
        "workers": workers, "bank_limit": bank_limit, "scenario": scenario,
    }  # fmt: skip
    given |= {name: value for name, value in typed.items() if value is not None}
    target = RunFolder(run)
    known = target.require_unfinished().privacy.epsilon if carry_on else None
    options = _options(given, known)
    if carry_on and "bank_limit" in given:
        raise ParameterError(
            "bank_limit: the parties of this run have their limits; pv4fad ledger set-limit"
            f" {run}/NAME changes one"
        )
    if carry_on and desk_labels is not None:
        raise ParameterError("desk_labels: the run to resume has its labels; leave the option out")
    if not carry_on and not target.is_unfinished:
        target.require_new()
    split = training_split(folder, options.scenario)
    begun = target.read()
    require_schema_of(target, folder, schema)
    settled = data_schema(folder, schema) if begun is None else begun.data_schema
    # An unfinished run has made the holders' ledgers already.
    _announce(options, settled.words, new=not carry_on and not target.is_unfinished)
    site = Site(federation_key(key, new=not carry_on), options.exact_bank_limit, options.workers)
    try:
        with phase_display(TRAINING_PHASES) as report:
            if carry_on:
                settings = {
                    name: value
                    for name, value in given.items()
                    if name in TrainingSettings.model_fields
                }
                document = resume(split, target, settings, site, report)
            else:
                document = train(
                    settled,
                    split,
                    target,
                    options.settings(),
                    site,
                    desk_labels=desk_labels,
                    report=report,
                )
    except BaseException:
        _print_how_to_carry_on(target, folder, key)
        raise
    if as_json:
        print_json(document.model_dump(mode="json"))
    else:
        _print_summary(document, run, folder, key)


def _options(given: dict[str, Any], known_epsilon: str | None) -> TrainingOptions:
    """The options; a run to resume has its ε already."""
    if known_epsilon is not None:
        given = {"epsilon": known_epsilon} | given
    if "epsilon" not in given:
        raise ParameterError(
            "--epsilon is missing, and has no default: give the privacy loss of this run, such as"
            " --epsilon 1.0, or write out --epsilon none for a run without noise and privacy"
        )
    return TrainingOptions(**given)


def _announce(options: TrainingOptions, words: Words, *, new: bool) -> None:
    if options.epsilon == "none":
        err.print(Panel(words(NO_PRIVACY), style="bold red"))
    elif is_weak(options.exact_epsilon):
        chance = guessing_bound(options.exact_epsilon)
        err.print(
            f"[bold yellow]ε = {options.epsilon} is weak protection: somebody who was undecided"
            f" about a record may guess right with a probability of up to {chance:.0%}.[/]",
            soft_wrap=True,
        )
    text = "This command plays all parties."
    if new:
        limit = epsilon_text(options.exact_bank_limit)
        source = "this run's ε" if options.bank_limit is None else "--bank-limit"
        text += words(
            " Each {holder} begins a new ledger, with a limit for ε of {limit} ({source}); a real"
            " one has one ledger for all its runs and sets the limit itself.",
            limit=limit,
            source=source,
        )
    err.print(f"[bold yellow]{text}[/]", soft_wrap=True)


def _print_how_to_carry_on(target: RunFolder, folder: Path, key: str | None) -> None:
    document = target.read()
    if document is None or document.state == "finished":
        return
    how = f"To carry on: pv4fad train {folder} --out {target.path} --resume{_key(key)}"
    if not document.traffic:
        how = "Repeat the command that began it, without --resume."
    err.print(f"The run in {target.path} is not finished. {how}", markup=False, soft_wrap=True)


def _key(key: str | None) -> str:
    return "" if key is None else f" --key {shlex.quote(key)}"


def _print_summary(document: RunDocument, run: Path, folder: Path, key: str | None) -> None:
    sizes, parameters, words = document.sizes, document.parameters, document.data_schema.words
    table = Table(title=f"Run {document.run_id}", show_header=False)
    table.add_row("parties", f"{words.lead}, aggregator, {', '.join(parameters.banks)}")
    for plan in parameters.tables:
        banks = ", ".join(f"{parameters.banks[bank]:,} of {bank}" for bank in plan.banks)
        table.add_row(
            f"table {plan.table_id}",
            words(
                f"at most {plan.layout.n_accounts_declared:,} {{records}} of the {{lead}} against"
                f" {banks}; {plan.layout.n_bins:,} bins"
            ),
        )
    if parameters.mode == "counts":
        kind = "exact" if parameters.epsilon == "none" else "noisy"
        model = f"evidence: {sizes.groups} cells, {sizes.sums} {kind} counts"
    else:
        model = (
            f"the paper's, labels {parameters.mode}: {sizes.trees} trees, {sizes.sums:,} sums,"
            f" {sizes.red_leaves:,} red leaves"
        )
    table.add_row("model", f"{model}; plaintext modulus {sizes.plain_modulus}")
    out.print(table)
    out.print(cost_table(document.phases))
    bounds = document.bounds
    out.print(
        "log2 of the failure probability: "
        f"distance from uniform {bounds.log2_distance:.1f}, false match "
        f"{bounds.log2_false_match:.1f}, overflow {bounds.log2_wrap:.0f}, table placement "
        f"{bounds.log2_placement_failure:.1f}, decryption {bounds.log2_decryption_failure:.0f}",
        soft_wrap=True,
    )
    if parse_epsilon(parameters.epsilon) == "none":
        out.print(Panel(words(NO_PRIVACY), style="bold red"))
    else:
        claim = f"{document.privacy.claim}\n{document.privacy.outside_the_claim}"
        title = f"ε = {parameters.epsilon}, δ = {document.privacy.delta}"
        out.print(Panel(escape(claim), title=title))
    next_command = (
        f"pv4fad verify {run} {folder}"
        if parameters.epsilon == "none"
        else f"pv4fad ledger show {run / next(iter(parameters.banks))}"
    )
    text = f"The run is in {run}. Next: {next_command}{_key(key)}"
    out.print(escape(text), soft_wrap=True)
