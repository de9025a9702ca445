"""The passphrase of a federation on one machine: one for the stores of all its parties.

In a real federation every party has its own, on its own machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pv4fad.errors import StoreError
from pv4fad.parties.sealing import Passphrase, create_key_file, passphrase_for

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="File with the passphrase of all stores. Otherwise PV4FAD_PASSPHRASE,"
        " PV4FAD_PASSPHRASE_FILE, or a prompt.",
    ),
]


def federation_passphrase(key_file: Path | None, *, new: bool = False) -> Passphrase:
    """One passphrase for all parties; a `new` federation may have its key file made."""
    if new and key_file is not None and not key_file.exists():
        return create_key_file(key_file)
    try:
        passphrase = passphrase_for("federation", key_file=key_file, confirm=new)
    except StoreError as error:
        if key_file is not None:
            raise
        raise StoreError(f"{error}; or give --key-file FILE") from None
    if new:
        passphrase.require_strength()
    return passphrase
