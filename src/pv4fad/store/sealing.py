"""Secrets at rest: what seals the records of a store, and what locks the key that does.

    root key ──locks──▶ store key ──AES-256-GCM──▶ seals every record

The store key is random and never changes, so the root key can.  A root key is held outside of the
store: a passphrase, 256 secret bits, or a key in a PKCS#11 token (`pkcs11_token`).  `key_sources`
says where they are found.

Each sealing takes a fresh nonce and is bound to a `label` that says what is sealed: a record cannot
take the place of another, nor the locked key of a store that of another store.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, field
from hmac import digest as hmac_digest
from threading import Lock
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from pv4fad.errors import ParameterError, StoreError
from pv4fad.randomness import secret_bytes

KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
FINGERPRINT_BYTES = 8
MIN_PASSPHRASE_CHARACTERS = 12
DAMAGED_LOCK = "its locked key is damaged; restore the folder from a backup"

Label = tuple[str | int, ...]
About = dict[str, str | int]


class Sealer:
    """AES-256-GCM with one key: nonce, ciphertext, tag."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, plain: bytes | memoryview, label: Label) -> bytes:
        """Encrypt and bind to the label."""
        nonce = secret_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, label_bytes(label))

    def open(self, sealed: bytes, label: Label) -> bytes:
        """What was sealed under this label; `StoreError` if it was not, or not by this key."""
        try:
            nonce, ciphertext = sealed[:NONCE_BYTES], memoryview(sealed)[NONCE_BYTES:]
            return self._cipher.decrypt(nonce, ciphertext, label_bytes(label))
        except (InvalidTag, ValueError):
            raise StoreError(
                "sealed bytes are damaged, or were sealed for something else"
            ) from None


class RootKey(ABC):
    """Locks the key of a store.

    Something else that keeps root keys, such as the key service of a cloud, is one more class.
    """

    kind: ClassVar[str]
    """For people, and noted in the store."""

    @abstractmethod
    def about(self) -> About:
        """Of a new lock, public and kept with it: which key it is, and what unlocking needs.

        `StoreError` if it is quickly guessed: asked when a root key is set, not when it is used.
        """

    @abstractmethod
    def lock(self, key: bytes, about: About, label: Label) -> bytes:
        """The key of a store, encrypted and bound to the label."""

    @abstractmethod
    def unlock(self, locked: bytes, about: About, label: Label) -> bytes:
        """The key again; `StoreError` says if another root key locked it, or it is damaged."""


@dataclass(frozen=True)
class SecretKey(RootKey):
    """256 bits that were drawn at random."""

    kind = "256-bit key"

    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return hmac_digest(self.key, b"pv4fad root key", "sha256")[:FINGERPRINT_BYTES].hex()

    def about(self) -> About:
        return {"fingerprint": self.fingerprint}

    def lock(self, key: bytes, about: About, label: Label) -> bytes:
        return Sealer(self.key).seal(key, label)

    def unlock(self, locked: bytes, about: About, label: Label) -> bytes:
        if about.get("fingerprint") != self.fingerprint:
            raise StoreError(
                f"wrong key: it is locked with the one of fingerprint {about.get('fingerprint')},"
                f" this one has {self.fingerprint}"
            )
        try:
            return Sealer(self.key).open(locked, label)
        except StoreError:
            raise StoreError(DAMAGED_LOCK) from None


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


def usual_cost() -> ScryptCost:
    """That of new locks."""
    return ScryptCost()


@dataclass(frozen=True)
class Passphrase(RootKey):
    """A text that somebody knows, or that is in a file; may be used by several threads.

    Scrypt runs once for each salt, and what is locked with the same object has the same salt: who
    guesses the passphrase of one store has that of the others anyway.
    """

    kind = "passphrase"

    text: str = field(repr=False)
    _salt: bytes = field(
        default_factory=lambda: secret_bytes(SALT_BYTES), init=False, repr=False, compare=False
    )
    _derived: dict[tuple[bytes, ScryptCost], Future[SecretKey]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _guard: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def require_strength(self) -> None:
        """Refuse what is quickly guessed."""
        if len(self.text) < MIN_PASSPHRASE_CHARACTERS:
            raise StoreError(f"a passphrase needs at least {MIN_PASSPHRASE_CHARACTERS} characters")

    def about(self) -> About:
        self.require_strength()
        cost = usual_cost()
        return {
            "log2_n": cost.log2_n,
            "r": cost.r,
            "p": cost.p,
            "insecure_fast": int(cost.insecure_fast),
            "salt": self._salt.hex(),
            "fingerprint": self._secret_key(self._salt, cost).fingerprint,
        }

    def lock(self, key: bytes, about: About, label: Label) -> bytes:
        return self._key_for(about).lock(key, about, label)

    def unlock(self, locked: bytes, about: About, label: Label) -> bytes:
        derived = self._key_for(about)
        # A lock of store format 5 has no fingerprint.
        noted = about.get("fingerprint", derived.fingerprint)
        if noted != derived.fingerprint:
            raise StoreError("wrong passphrase")
        try:
            return derived.unlock(locked, about | {"fingerprint": noted}, label)
        except StoreError:
            if "fingerprint" in about:
                raise
            raise StoreError("wrong passphrase") from None

    def _key_for(self, about: About) -> SecretKey:
        try:
            salt = bytes.fromhex(str(about["salt"]))
            log2_n, r, p, fast = (
                int(about[name]) for name in ("log2_n", "r", "p", "insecure_fast")
            )
            return self._secret_key(salt, ScryptCost(log2_n, r, p, bool(fast)))
        except (KeyError, ValueError, ParameterError):
            raise StoreError(DAMAGED_LOCK) from None

    def _secret_key(self, salt: bytes, cost: ScryptCost) -> SecretKey:
        with self._guard:
            is_new = (salt, cost) not in self._derived
            found = self._derived.setdefault((salt, cost), Future())
        if is_new:
            try:
                found.set_result(self._derive(salt, cost))
            except BaseException as error:
                found.set_exception(error)
        return found.result()

    def _derive(self, salt: bytes, cost: ScryptCost) -> SecretKey:
        kdf = Scrypt(salt=salt, length=KEY_BYTES, n=2**cost.log2_n, r=cost.r, p=cost.p)
        # The same passphrase typed on two systems can differ in bytes; NFKC makes it one.
        return SecretKey(kdf.derive(unicodedata.normalize("NFKC", self.text).encode()))


def new_store_key() -> bytes:
    """A fresh random key for the records of one store."""
    return secret_bytes(KEY_BYTES)


def label_bytes(label: Label) -> bytes:
    """What a label looks like to a cipher."""
    return json.dumps(label, separators=(",", ":")).encode()
