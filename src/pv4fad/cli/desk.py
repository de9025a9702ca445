"""`pv4fad desk`: tokens of the people and programs that use a service, labels from its desk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.markup import escape

from pv4fad.cli.console import err, out
from pv4fad.cli.options import StoreKey, party_key
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.errors import ParameterError
from pv4fad.files import require_new_file, whole_file
from pv4fad.service.access import Tokens
from pv4fad.service.alerts import desk_labels
from pv4fad.service.journal import Journal, journal_key

app = typer.Typer(help="The alert desk: who may use it, what was said.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The party's own folder.")]


@app.command()
def token(
    folder: Folder,
    *,
    name: Annotated[str, typer.Option(help="Whose token it is: a person or a program.")],
    use: Annotated[
        str,
        typer.Option(
            help="desk: log in to the pages; payments: send payments; metrics: read metrics."
        ),
    ] = "desk",
    remove: Annotated[
        bool, typer.Option("--remove", help="Take back all tokens of this name instead.")
    ] = False,
) -> None:
    """Create a token and print it: it is shown once, and replaces an earlier one."""
    own = PartyFolder(folder)
    own.settings()
    if remove:
        Tokens(own.path).remove(name)
        err.print(escape(f"{name} has no token any more"))
        return
    out.print(Tokens(own.path).create(name, use), soft_wrap=True)
    err.print(escape(f"This is the token of {name} for {use}. It is shown once."))


@app.command()
def labels(
    folder: Folder,
    *,
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="New CSV file.")],
    key_source: StoreKey = None,
) -> None:
    """Write what people said about alerts, as labels for the next training.

    The service may run meanwhile.
    """
    own = PartyFolder(folder)
    if own.settings().role != "payment-network":
        raise ParameterError(f"{folder} is not the folder of a payment-network")
    require_new_file(file)
    with own.visit_store(party_key(own, key_source)) as store:
        key = journal_key(store)
    with Journal.look(own.path, key) as journal:
        found = desk_labels(journal)
    rows = own.schema().rows
    table = pl.DataFrame(
        {rows.id: list(found), rows.label: list(found.values())},
        schema={rows.id: pl.String, rows.label: pl.Int8},
    )
    with whole_file(file, private=True) as target:
        table.write_csv(target)
    n_confirmed = sum(found.values())
    err.print(f"{n_confirmed:,} confirmed and {len(found) - n_confirmed:,} dismissed alerts")
