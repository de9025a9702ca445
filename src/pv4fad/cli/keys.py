"""`pv4fad keys`: what unlocks a party's store, and how that is changed (docs/operate/keys.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.cli.console import out, print_json
from pv4fad.cli.options import AsJson, StoreKey, new_key, store_key
from pv4fad.errors import StoreError
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import info_of
from pv4fad.store.key_sources import typed_passphrase

app = typer.Typer(help="What unlocks a store, and how to change it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with a store.")]


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say which root key locks a store, and since when. Needs no key, and changes nothing."""
    info = info_of(folder, shared=True)
    found = {
        "party": info.party,
        "root key": info.lock.kind,
        **info.lock.shown(),
        "locked since": info.lock.since or "before this was noted",
        "store format": info.version,
    }
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        out.print(escape(f"{name}: {value}"), soft_wrap=True)


@app.command()
def rotate(
    folder: Folder,
    key: StoreKey = None,
    new: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="The new root key, as with --key; made if it does not exist. Default: a"
            " passphrase that you type.",
        ),
    ] = None,
) -> None:
    """Lock a store with a new root key: the old one no longer opens it, and no record changes.

    Stop the party first. If this is interrupted, either the old key opens the store or the new one:
    pv4fad keys status says which.
    """
    with DiskStore.open(folder, store_key(folder, key)) as store:
        if new is None and not sys.stdin.isatty():
            raise StoreError("no new key: give --new SOURCE, or start it in a terminal")
        root_key = typed_passphrase(store.party, confirm=True) if new is None else None
        store.rotate(root_key or new_key(store.party, new))
        lock = store.lock
    out.print(escape(f"{store.party}: locked with a {lock.kind} since {lock.since}."))
    out.print("The old key still opens copies and backups that were made before.")
    if new is not None and (folder / "party.toml").is_file():
        text = f"Set this in party.toml, or give it as --key: key = {json.dumps(new)}"
        out.print(escape(text), soft_wrap=True)
