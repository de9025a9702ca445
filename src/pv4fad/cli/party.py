"""`pv4fad party`: one organisation's part in a deployed federation, in its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.audit.catch_up import CaughtUp, code_for_others
from pv4fad.audit.witness import Witness
from pv4fad.cli.console import fail, out
from pv4fad.cli.long_running import logging_as
from pv4fad.cli.options import LogFormat, StoreKey, given_key, new_key, party_key
from pv4fad.cli.progress import learned_lines
from pv4fad.deployment.backup import write_backup
from pv4fad.deployment.card import ROLES, PartyCard, Role, federation_id
from pv4fad.deployment.carriers import carrier_of
from pv4fad.deployment.catching_up import take_in, witnesses_needed
from pv4fad.deployment.checking import check_party, noise_text
from pv4fad.deployment.job_notes import abandon
from pv4fad.deployment.new_party import NewParty, create_party, renew_card
from pv4fad.deployment.party_folder import CARRIERS, CarrierName, PartyFolder
from pv4fad.deployment.restore import (
    note_restored_beside_store,
    read_manifest,
    restore_backup,
)
from pv4fad.deployment.running import run_party
from pv4fad.errors import ParameterError, StoreError
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.epsilon import epsilon_text, parse_epsilon
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.service.access import Tokens

app = typer.Typer(help="One organisation's part in a deployed federation.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The party's own folder.")]


@app.command()
def init(
    folder: Folder,
    *,
    role: Annotated[str, typer.Option(help="payment-network, aggregator or bank.")],
    name: Annotated[
        str | None,
        typer.Option(help="A bank: its name in the federation. Other roles have a fixed name."),
    ] = None,
    hub: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address of the aggregator's hub.")
    ] = "127.0.0.1:8000",
    data: Annotated[
        Path | None,
        typer.Option(help="A bank's accounts; the payment network's labelled transactions."),
    ] = None,
    new_transactions: Annotated[
        Path | None, typer.Option(help="The payment network: transactions to score.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What rows, sides and classes are, the same for all. Default: payments.",
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The payment network: privacy loss of the next training.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(help="A bank: the ε that it allows in total, over all runs.")
    ] = None,
    carrier: Annotated[
        str, typer.Option(help="What carries the messages, the same for all: hub or flower.")
    ] = "hub",
    runtime_port: Annotated[
        int | None,
        typer.Option(help="Flower: a free port on this machine, for the node's own use."),
    ] = None,
    key: StoreKey = None,
) -> None:
    """Create a party's folder: store, keys, settings and card.

    What --key names is made if it does not exist: a file, or a key in a token.
    """
    if role not in ROLES:
        raise ParameterError(f"--role {role}: give one of {', '.join(ROLES)}")
    known: Role = role
    party = name or (role if role != "bank" else "")
    if not party:
        raise ParameterError("--name is missing: the name of this party in the federation")
    new = NewParty(
        known,
        party,
        hub,
        data=data,
        schema=schema,
        new_transactions=new_transactions,
        epsilon=epsilon,
        limit=None if limit is None else parse_epsilon(limit),
        carrier=_carrier(carrier),
        runtime_port=runtime_port,
    )
    card = create_party(folder, new, lambda: new_key(party, key))
    out.print(escape(f"Created {party} in {folder}. Give {folder / 'card.json'} to all others."))
    out.print(f"fingerprint of the card: [bold]{card.fingerprint}[/]")


@app.command()
def card(
    folder: Folder,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="A bank: update BICs and number of accounts from its file."),
    ] = False,
) -> None:
    """Print this party's card, for the others."""
    own = PartyFolder(folder)
    own.settings()
    out.print(escape((renew_card(own) if renew else own.own_card()).to_json()), soft_wrap=True)


@app.command()
def join(
    folder: Folder,
    cards: Annotated[list[Path], typer.Argument(metavar="CARD...", help="Cards of the others.")],
) -> None:
    """Import the cards of the others. Compare the fingerprints with them, e.g. by telephone."""
    own = PartyFolder(folder)
    own.settings()
    for path in cards:
        own.import_card(path)
    _print_cards(own.cards())
    if own.settings().role == "bank":
        text = noise_text(own.settings(), own.cards(), own.schema().words)
        out.print(escape(f"{own.own_card().name} {text}"), soft_wrap=True)


@app.command()
def check(folder: Folder, key: StoreKey = None) -> None:
    """Check data, keys, certificates, versions and free disk. Exit code 1 if a check fails."""
    own = PartyFolder(folder)
    carrier = carrier_of(own.settings().carrier)
    findings = check_party(own, party_key(own, key), carrier)
    table = Table("checked", "")
    table.add_column("found", overflow="fold")  # paths are shown in full
    for finding in findings:
        mark = "[green]good[/]" if finding.good else "[bold red]wrong[/]"
        table.add_row(finding.what, mark, escape(finding.found))
    out.print(table)
    if not all(finding.good for finding in findings):
        fail("this party is not ready", 1)


@app.command()
def run(folder: Folder, key: StoreKey = None, log_format: LogFormat = "text") -> None:
    """Take part: run the party's station, at the aggregator also the hub, until interrupted."""
    own = PartyFolder(folder)
    settings = own.settings()
    with logging_as(log_format, settings.name) as say:
        carrier = carrier_of(settings.carrier)
        root_key = party_key(own, key)
        name = own.party_name()

        def say_learned(record: ScoringRecord) -> None:
            for line in learned_lines(record, own.schema().words):
                say(line)

        may_read = Tokens(own.path).may_read_metrics
        ready = partial(say, f"{name} is ready")
        run_party(own, root_key, carrier, ready, learned=say_learned, may_read=may_read)


@app.command()
def online(folder: Folder) -> None:
    """Ask the hub whether this party's station is connected. Exit code 1 if it is not."""
    settings = PartyFolder(folder).settings()
    try:
        connected = carrier_of(settings.carrier).is_online(PartyFolder(folder))
    except StoreError as error:
        fail(escape(str(error)), 1)
    if not connected:
        fail(escape(f"the hub runs; the station of {settings.name} is not connected"), 1)
    out.print(escape(f"the station of {settings.name} is connected"))


@app.command("abandon")
def abandon_command(folder: Folder, key: StoreKey = None) -> None:
    """Abandon the interrupted job (stop the payment network first)."""
    own = PartyFolder(folder)
    with own.open_store(party_key(own, key)) as store:
        run_id = abandon(store)
    out.print(
        f"abandoned the interrupted job of run {run_id}; what others have spent on it stays"
        " spent, and what they have answered stays known"
    )


@app.command()
def backup(
    folder: Folder,
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")],
    key: StoreKey = None,
) -> None:
    """Save all that this party needs to go on in one sealed file. It may be running meanwhile.

    The file opens with the root key of the store, which is not in it. Data files and predictions
    are not in it either.
    """
    own = PartyFolder(folder)
    manifest = write_backup(own, party_key(own, key), file)
    n_bytes = sum(part.size_bytes for part in manifest.parts.values())
    text = f"{manifest.party}: {n_bytes / 10**6:,.1f} MB saved in {file} ({manifest.time})"
    out.print(escape(text), soft_wrap=True)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    key: StoreKey = None,
) -> None:
    """Make a party's folder from a backup.

    The party takes part again once it has taken in what the others hold: see pv4fad party catch-up.
    """
    manifest = read_manifest(file)
    code = restore_backup(file, folder, given_key(manifest.party, key))
    out.print(
        escape(f"restored {manifest.party} in {folder}, as it was at {manifest.time}"),
        soft_wrap=True,
    )
    _print_code(PartyFolder(folder), code)


@app.command("catch-up")
def catch_up_command(
    folder: Folder,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="What the others hold.")
    ] = None,
    key: StoreKey = None,
) -> None:
    """Take in what the others hold of this party's messages, after its store was restored.

    Without files: say whose are needed. A store that was put back in another way, such as by a
    snapshot of the machine, then waits for them, too.
    """
    own = PartyFolder(folder)
    witnesses = [Witness.read(file) for file in files or ()]
    with own.open_store(party_key(own, key)) as store:
        if not witnesses:
            note_restored_beside_store(own)
            _print_code(own, code_for_others(store))
            return
        found = take_in(own.settings(), own.complete_cards(), store, witnesses)
    _print_caught_up(own, found)


def _print_code(own: PartyFolder, code: str) -> None:
    settings = own.settings()
    out.print(
        "Before it goes on, it needs files from all that it exchanges messages with. They run"
    )
    command = f"pv4fad audit witness FOLDER --of {settings.name} --code {code} --out FILE"
    out.print(f"  {escape(command)}", soft_wrap=True)
    out.print("and then here: pv4fad party catch-up FOLDER FILE...")
    cards = own.cards()
    needed = ", ".join(witnesses_needed(settings, cards)) or "none yet"
    out.print(escape(f"By the cards here these are {needed}: {_federation(cards)}"), soft_wrap=True)
    out.print(
        "Settings, limits, tokens and root key are those of then: once it has caught up, set again"
        " what was changed since, before its station starts",
        soft_wrap=True,
    )


def _federation(cards: Mapping[str, PartyCard]) -> str:
    return (
        f"federation {federation_id(cards.values())}. If the others have another number (pv4fad"
        " party check), cards here are not the present ones: correct that first (pv4fad party"
        " join), and call pv4fad party catch-up FOLDER again, without files"
    )


def _print_caught_up(own: PartyFolder, found: CaughtUp) -> None:
    out.print(
        f"{len(found.lost):,} messages that this party had sent are in its log again"
        if found.lost
        else "nothing was lost: this party goes on where it was"
    )
    out.print(escape(_federation(own.cards())), soft_wrap=True)
    if found.before != found.after:
        amounts = [f"ε = {epsilon_text(one.epsilon)}" for one in (found.before, found.after)]
        amounts += [f"δ = {delta_text(one.delta)}" for one in (found.before, found.after)]
        out.print(
            f"spent: {amounts[0]}, {amounts[2]} by the backup; now {amounts[1]}, {amounts[3]}",
            soft_wrap=True,
        )
    if found.lost:
        out.print(
            "A job under way has to be abandoned, and all accounts matched again: pv4fad federation"
            " start AGGREGATOR refresh",
            soft_wrap=True,
        )


def _carrier(given: str) -> CarrierName:
    for known in CARRIERS:
        if known == given:
            return known
    raise ParameterError(f"--carrier {given}: give one of {', '.join(CARRIERS)}")


def _print_cards(cards: dict[str, PartyCard]) -> None:
    table = Table("party", "records")
    table.add_column("fingerprint of the card", no_wrap=True, min_width=39)
    for card in cards.values():
        accounts = f"{card.accounts:,}" if card.accounts else ""
        table.add_row(escape(card.name), accounts, card.fingerprint)
    out.print(table)
    out.print(f"federation {federation_id(cards.values())}: must be the same for all parties")
