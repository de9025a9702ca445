"""Options of several commands, and the root keys that they name.

A federation on one machine has one root key for the stores of all its parties.  In a deployed
federation every party has its own, on its own machine; its party.toml may say where.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pv4fad.deployment.party_folder import SETTINGS_FILE, PartyFolder
from pv4fad.errors import StoreError
from pv4fad.logs import VARIABLE
from pv4fad.store.file import party_of
from pv4fad.store.key_sources import ENVIRONMENT, new_root_key, root_key_for
from pv4fad.store.sealing import RootKey

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Workers = Annotated[
    str | None,  # as `WorkerPool` reads it
    typer.Option(
        metavar="N|ray|ADDRESS",
        help="Worker processes, or a Ray cluster: ray if this machine is a node of it, otherwise"
        " ray://HOST:PORT. Default: one process per core.",
    ),
]
Scenario = Annotated[str | None, typer.Option(help="Which scenario, if DIR has several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
_SOURCES = "a file with a passphrase, file:FILE, env:VARIABLE or pkcs11:…"
StoreKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        "--key-file",
        metavar="SOURCE",
        help=f"Unlocks the store: {_SOURCES}. Otherwise key in party.toml, PV4FAD_PASSPHRASE,"
        " PV4FAD_PASSPHRASE_FILE, or a prompt.",
    ),
]
KeyOfAll = Annotated[
    str | None,
    typer.Option(
        "--key",
        "--key-file",
        metavar="SOURCE",
        help=f"Unlocks all stores: {_SOURCES}. Otherwise PV4FAD_PASSPHRASE,"
        " PV4FAD_PASSPHRASE_FILE, or a prompt.",
    ),
]

KeyOfAllIfAny = Annotated[
    str | None,
    typer.Option(
        "--key",
        "--key-file",
        metavar="SOURCE",
        help=f"Unlocks all stores: {_SOURCES}; otherwise PV4FAD_PASSPHRASE or"
        " PV4FAD_PASSPHRASE_FILE. Without any, what is sealed is left out.",
    ),
]
LogFormat = Annotated[
    str,
    typer.Option(envvar=VARIABLE, help="text: lines for people; json: one JSON object per line."),
]


def federation_key(source: str | None, *, new: bool = False) -> RootKey:
    """One root key for all parties; for a `new` federation it is made if it does not exist."""
    if new:
        return new_key("federation", source)
    return given_key("federation", source)


def new_key(party: str, source: str | None) -> RootKey:
    """A passphrase that is typed is typed twice; what is named and does not exist is made."""
    try:
        return new_root_key(party, source)
    except StoreError as error:
        raise _with_hint(error, source) from None


def party_key(folder: PartyFolder, source: str | None) -> RootKey:
    """Of a party's folder: as given, or as its party.toml says."""
    settings = folder.settings()
    return given_key(settings.name, source or settings.key or None)


def store_key(folder: Path, source: str | None) -> RootKey:
    """Of a folder with a store, be it a party's or one of a run."""
    if (folder / SETTINGS_FILE).is_file():
        return party_key(PartyFolder(folder), source)
    return given_key(party_of(folder, shared=True), source)


def federation_key_if_given(source: str | None) -> RootKey | None:
    """None if none is given: for what can do without, and does not ask for one."""
    given = source is not None or any(name.startswith(ENVIRONMENT) for name in os.environ)
    return federation_key(source) if given else None


def given_key(party: str, source: str | None) -> RootKey:
    """The root key of an existing store."""
    try:
        return root_key_for(party, source)
    except StoreError as error:
        raise _with_hint(error, source) from None


def _with_hint(error: StoreError, source: str | None) -> StoreError:
    return error if source is not None else StoreError(f"{error}; or give --key SOURCE")
