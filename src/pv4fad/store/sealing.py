"""Secrets at rest: where a passphrase comes from, and what it locks.

    passphrase ──scrypt(salt, cost)──▶ locks the store key ──AES-256-GCM──▶ seals every record

The store key is random and never changes, so the passphrase can.  Each sealing takes a fresh nonce
and is bound to a `label` that says what is sealed: a record cannot take the place of another.

A passphrase comes from, in this order: a key file named by the caller, PV4FAD_PASSPHRASE_<PARTY>
(e.g. PV4FAD_PASSPHRASE_BANK_A), PV4FAD_PASSPHRASE, the key file PV4FAD_PASSPHRASE_FILE, a prompt.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
import unicodedata
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from pv4fad.errors import ParameterError, StoreError
from pv4fad.randomness import secret_bytes

KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
MIN_PASSPHRASE_CHARACTERS = 12
ENVIRONMENT = "PV4FAD_PASSPHRASE"
MAX_KEY_FILE_BYTES = 4096

Label = tuple[str | int, ...]


@dataclass(frozen=True)
class ScryptCost:
    """The work for one guess of a passphrase: 128 MiB of memory and some 0.4 s by default."""

    log2_n: int = 17
    r: int = 8
    p: int = 1
    insecure_fast: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.log2_n <= 22 and 1 <= self.r <= 32 and 1 <= self.p <= 16):
            raise ParameterError("scrypt cost is beyond 2^22, r 32, p 16")
        if not self.insecure_fast and (self.log2_n < 15 or self.r < 8):
            raise ParameterError("scrypt cost below 2^15, r 8 does not protect a passphrase")


def insecure_fast_scrypt_for_tests() -> ScryptCost:
    """A cost that protects nothing."""
    return ScryptCost(log2_n=2, r=1, insecure_fast=True)


class Sealer:
    """AES-256-GCM with one key: nonce, ciphertext, tag."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, plain: bytes | memoryview, label: Label) -> bytes:
        """Encrypt and bind to the label."""
        nonce = secret_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, _label_bytes(label))

    def open(self, sealed: bytes, label: Label) -> bytes:
        """What was sealed under this label; `StoreError` if it was not, or not by this key."""
        try:
            nonce, ciphertext = sealed[:NONCE_BYTES], memoryview(sealed)[NONCE_BYTES:]
            return self._cipher.decrypt(nonce, ciphertext, _label_bytes(label))
        except (InvalidTag, ValueError):
            raise StoreError(
                "sealed bytes are damaged, or were sealed for something else"
            ) from None


@dataclass(frozen=True)
class Passphrase:
    """What unlocks a store."""

    text: str = field(repr=False)

    def require_strength(self) -> None:
        """Refuse what is quickly guessed; asked when a passphrase is set, not when it is used."""
        if len(self.text) < MIN_PASSPHRASE_CHARACTERS:
            raise StoreError(f"a passphrase needs at least {MIN_PASSPHRASE_CHARACTERS} characters")

    def new_salt(self) -> bytes:
        """For a store key that is to be locked."""
        return secret_bytes(SALT_BYTES)

    def sealer(self, salt: bytes, cost: ScryptCost) -> Sealer:
        """The sealer that locks and unlocks a store key."""
        kdf = Scrypt(salt=salt, length=KEY_BYTES, n=2**cost.log2_n, r=cost.r, p=cost.p)
        # The same passphrase typed on two systems can differ in bytes; NFKC makes it one.
        return Sealer(kdf.derive(unicodedata.normalize("NFKC", self.text).encode()))


@dataclass(frozen=True)
class SharedPassphrase(Passphrase):
    """Of several stores, for several threads.  Scrypt runs once for each salt, and the stores that
    are made with it have the same: who guesses the passphrase of one has that of all anyway."""

    _salt: bytes = field(default_factory=lambda: secret_bytes(SALT_BYTES), repr=False)
    _sealers: dict[tuple[bytes, ScryptCost], Future[Sealer]] = field(
        default_factory=dict, repr=False
    )
    _guard: Lock = field(default_factory=Lock, repr=False)

    def new_salt(self) -> bytes:
        return self._salt

    def sealer(self, salt: bytes, cost: ScryptCost) -> Sealer:
        with self._guard:
            is_new = (salt, cost) not in self._sealers
            found = self._sealers.setdefault((salt, cost), Future())
        if is_new:
            try:
                found.set_result(super().sealer(salt, cost))
            except BaseException as error:
                found.set_exception(error)
        return found.result()


def new_store_key() -> bytes:
    """A fresh random key for the records of one store."""
    return secret_bytes(KEY_BYTES)


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


def _label_bytes(label: Label) -> bytes:
    return json.dumps(label, separators=(",", ":")).encode()
