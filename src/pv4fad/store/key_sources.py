"""Where root keys come from.

    FILE            a passphrase, as text in a file
    file:FILE       256 bits, as 64 hexadecimal digits in a file
    env:VARIABLE    the same in a variable, whose name starts with PV4FAD_KEY
    pkcs11:…        a key in a token (`pkcs11_token`)

Where none of these is named, it is a passphrase, which comes from, in this order:
PV4FAD_PASSPHRASE_<PARTY> (e.g. PV4FAD_PASSPHRASE_BANK_A), PV4FAD_PASSPHRASE, the file
PV4FAD_PASSPHRASE_FILE, a prompt.  Files with secrets must be closed to others.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from pathlib import Path

from pv4fad.errors import ParameterError, StoreError
from pv4fad.files import sync_folder
from pv4fad.randomness import secret_bytes
from pv4fad.store.pkcs11_token import PIN_VARIABLE, SCHEME, TokenKey
from pv4fad.store.sealing import KEY_BYTES, Passphrase, RootKey, SecretKey

ENVIRONMENT = "PV4FAD_PASSPHRASE"
KEY_VARIABLE = "PV4FAD_KEY"
SECRET_VARIABLES = (ENVIRONMENT, KEY_VARIABLE, PIN_VARIABLE)
"""How the names of variables with secrets begin: other programs do not get them."""
MAX_KEY_FILE_BYTES = 4096
_FILE, _VARIABLE = "file:", "env:"


def root_key_for(party: str, source: str | None, *, confirm: bool = False) -> RootKey:
    """The root key of a party's store; `confirm` asks twice where it has to be typed."""
    if source is None:
        return passphrase_for(party, confirm=confirm)
    if source.startswith(SCHEME):
        return TokenKey.of_uri(source, lambda path: _secret_text(path, "PIN file"))
    if source.startswith(_FILE):
        path = Path(source.removeprefix(_FILE))
        return _secret_key(_secret_text(path, "key file"), f"key file {path}")
    if source.startswith(_VARIABLE):
        return _key_in_variable(source.removeprefix(_VARIABLE))
    return read_key_file(Path(source))


def new_root_key(party: str, source: str | None) -> RootKey:
    """For a store that is to be locked: what is named is made if it does not exist.

    A passphrase is typed twice, if it has to be typed.
    """
    path = Path((source or "").removeprefix(_FILE))
    if source is not None and not source.startswith((SCHEME, _VARIABLE)) and not path.exists():
        create_key_file(path)
    key = root_key_for(party, source, confirm=True)
    if isinstance(key, TokenKey):
        key.make_if_missing()
    if isinstance(key, Passphrase):
        key.require_strength()
    return key


def typed_passphrase(party: str, *, confirm: bool) -> Passphrase:
    """From a prompt; there has to be a terminal."""
    typed = _not_empty(getpass.getpass(f"Passphrase for {party}: "), "the passphrase")
    if confirm and getpass.getpass("The same again: ") != typed.text:
        raise StoreError("the two passphrases differ")
    return typed


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
    return typed_passphrase(party, confirm=confirm)


def create_key_file(path: Path) -> Passphrase:
    """A new file that only its owner can read, with 256 random bits as 64 digits, which are also a
    passphrase; it is on the disk before anything is locked with it."""
    text = secret_bytes(KEY_BYTES).hex()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise StoreError(f"cannot create key file {path}: {error.strerror}") from None
    return Passphrase(text)


def read_key_file(path: Path) -> Passphrase:
    """The passphrase in a key file (without the line end)."""
    return Passphrase(_secret_text(path, "key file"))


def _secret_text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"cannot read {what} {path}: {error.strerror}") from None
    # Group read is what secret mounts need; anything more means others know the key.
    if mode & 0o027:
        raise StoreError(f"{what} {path} is open to others; run: chmod 600 {path}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise StoreError(f"{what} {path} is not text") from None
    if len(raw) > MAX_KEY_FILE_BYTES:
        raise StoreError(f"{what} {path} is longer than {MAX_KEY_FILE_BYTES} bytes")
    return _not_empty(text.rstrip("\r\n"), f"{what} {path}").text


def _key_in_variable(name: str) -> SecretKey:
    if not name.startswith(KEY_VARIABLE):
        raise ParameterError(f"{_VARIABLE}{name}: its name has to start with {KEY_VARIABLE}")
    if name not in os.environ:
        raise StoreError(f"the variable {name} is not set")
    return _secret_key(os.environ[name], f"the variable {name}")


def _secret_key(text: str, where: str) -> SecretKey:
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text):
        raise StoreError(
            f"{where} does not hold a key of 256 bits: {2 * KEY_BYTES} hexadecimal digits"
        )
    return SecretKey(bytes.fromhex(text))


def _not_empty(text: str, source: str) -> Passphrase:
    if not text:
        raise StoreError(f"{source} is empty")
    return Passphrase(text)
