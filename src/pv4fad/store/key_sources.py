"""Where root keys come from.

A passphrase comes from, in this order: a key file named by the caller, PV4FAD_PASSPHRASE_<PARTY>
(e.g. PV4FAD_PASSPHRASE_BANK_A), PV4FAD_PASSPHRASE, the key file PV4FAD_PASSPHRASE_FILE, a prompt.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from pathlib import Path

from pv4fad.errors import StoreError
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import KEY_BYTES, Passphrase

ENVIRONMENT = "PV4FAD_PASSPHRASE"
MAX_KEY_FILE_BYTES = 4096


def passphrase_for(
    party: str, *, key_file: Path | None = None, confirm: bool = False
) -> Passphrase:
    """The passphrase of a party's store; `confirm` asks twice where it has to be typed."""
    if key_file is not None:
        return read_key_file(key_file)
    own = f"{ENVIRONMENT}_{re.sub('[^A-Z0-9]', '_', party.upper())}"
    file_variable = f"{ENVIRONMENT}_FILE"
    for variable in (own, ENVIRONMENT):
        # A party called "file" has no variable of its own: that name is taken.
        if variable in os.environ and variable != file_variable:
            return _not_empty(os.environ[variable], variable)
    if file_variable in os.environ:
        return read_key_file(Path(os.environ[file_variable]))
    if not sys.stdin.isatty():
        raise StoreError(
            f"no passphrase for {party}: set {own}, {ENVIRONMENT} or {file_variable}"
            " (a key file), or start it in a terminal"
        )
    typed = _not_empty(getpass.getpass(f"Passphrase for {party}: "), "the passphrase")
    if confirm and getpass.getpass("The same again: ") != typed.text:
        raise StoreError("the two passphrases differ")
    return typed


def create_key_file(path: Path) -> Passphrase:
    """A new file that only its owner can read, with a random passphrase; for tests and demos."""
    text = secret_bytes(KEY_BYTES).hex()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StoreError(f"cannot create key file {path}: {error.strerror}") from None
    return Passphrase(text)


def read_key_file(path: Path) -> Passphrase:
    """The passphrase in a key file (without the line end)."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"cannot read key file {path}: {error.strerror}") from None
    # Group read is what secret mounts need; anything more means others know the key.
    if mode & 0o027:
        raise StoreError(f"key file {path} is open to others; run: chmod 600 {path}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise StoreError(f"key file {path} is not text") from None
    if len(raw) > MAX_KEY_FILE_BYTES:
        raise StoreError(f"key file {path} is longer than {MAX_KEY_FILE_BYTES} bytes")
    return _not_empty(text.rstrip("\r\n"), f"key file {path}")


def _not_empty(text: str, source: str) -> Passphrase:
    if not text:
        raise StoreError(f"{source} is empty")
    return Passphrase(text)
