"""Options of several commands, and the passphrases that they ask for.

A federation on one machine has one passphrase for the stores of all its parties.  In a deployed
federation every party has its own, on its own machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pv4fad.errors import StoreError
from pv4fad.logs import VARIABLE
from pv4fad.store.key_sources import ENVIRONMENT, create_key_file, passphrase_for
from pv4fad.store.sealing import Passphrase

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
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="File with the passphrase of all stores. Otherwise PV4FAD_PASSPHRASE,"
        " PV4FAD_PASSPHRASE_FILE, or a prompt.",
    ),
]

KeyFileIfAny = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="File with the passphrase of all stores; otherwise PV4FAD_PASSPHRASE or"
        " PV4FAD_PASSPHRASE_FILE. Without any, what is sealed is left out.",
    ),
]
LogFormat = Annotated[
    str,
    typer.Option(envvar=VARIABLE, help="text: lines for people; json: one JSON object per line."),
]


def federation_passphrase(key_file: Path | None, *, new: bool = False) -> Passphrase:
    """One passphrase for all parties; for a `new` federation a key file may be created."""
    if new:
        return new_passphrase("federation", key_file)
    return given_passphrase("federation", key_file)


def new_passphrase(party: str, key_file: Path | None) -> Passphrase:
    """Typed twice, or in a key file, which is created if it does not exist."""
    if key_file is not None and not key_file.exists():
        return create_key_file(key_file)
    passphrase = given_passphrase(party, key_file, confirm=True)
    passphrase.require_strength()
    return passphrase


def given_passphrase(party: str, key_file: Path | None, *, confirm: bool = False) -> Passphrase:
    """The passphrase of an existing store."""
    try:
        return passphrase_for(party, key_file=key_file, confirm=confirm)
    except StoreError as error:
        if key_file is not None:
            raise
        raise StoreError(f"{error}; or give --key-file FILE") from None


def passphrase_if_given(key_file: Path | None) -> Passphrase | None:
    """None if none is given: for what can do without, and does not ask for one."""
    given = key_file is not None or any(name.startswith(ENVIRONMENT) for name in os.environ)
    return federation_passphrase(key_file) if given else None
