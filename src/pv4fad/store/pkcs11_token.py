"""A root key that never leaves its token: an AES key in an HSM or a smart card, by PKCS#11.

    pkcs11:token=LABEL;object=KEY?module-path=LIBRARY&pin-source=FILE          (RFC 7512)

The token encrypts the store key (AES-256-GCM, bound to the store) and decrypts it again; nothing
else is asked of it, and it is let go after each of the two.  The PIN is in the file `pin-source`,
or in PV4FAD_PKCS11_PIN; `pin-value` is refused.  The library is loaded into this process: who can
name another one, in an option or in party.toml, runs code here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from pv4fad.errors import ParameterError, StoreError
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import (
    DAMAGED_LOCK,
    KEY_BYTES,
    NONCE_BYTES,
    About,
    Label,
    RootKey,
    label_bytes,
)

if TYPE_CHECKING:
    from pkcs11 import Session

SCHEME = "pkcs11:"
PIN_VARIABLE = "PV4FAD_PKCS11_PIN"
_KEY_ID_BYTES = 16
_TAG_BITS = 128
_PATH_PARTS = {"token", "object"}
_QUERY_PARTS = {"module-path", "pin-source"}
_one_at_a_time = Lock()  # a process logs in to a token once, for all of its threads


@dataclass(frozen=True)
class TokenKey(RootKey):
    """A key of a token, by the labels of both."""

    kind = "PKCS#11 token"

    library: str
    token: str
    label: str
    pin: str = field(repr=False)

    @classmethod
    def of_uri(cls, uri: str, read_secret: Callable[[Path], str]) -> Self:
        """`read_secret` reads the file of the PIN."""
        path, _, query = uri.removeprefix(SCHEME).partition("?")
        parts = _parts(path, ";", _PATH_PARTS) | _parts(query, "&", _QUERY_PARTS)
        for name in sorted(_PATH_PARTS | {"module-path"}):
            if not parts.get(name):
                raise ParameterError(f"{SCHEME} {name}= is missing")
        if "pin-source" in parts:
            pin = read_secret(Path(parts["pin-source"].removeprefix("file:")))
        elif os.environ.get(PIN_VARIABLE):
            pin = os.environ[PIN_VARIABLE]
        else:
            raise StoreError(
                f"no PIN for the token {parts['token']}: set {PIN_VARIABLE}, or name a file with"
                " pin-source="
            )
        return cls(parts["module-path"], parts["token"], parts["object"], pin)

    def about(self) -> About:
        with self._session() as session:
            key = self._key(session)
            if key[_attribute("EXTRACTABLE")] or not key[_attribute("SENSITIVE")]:
                raise StoreError(f"{self._name} can leave its token: make another one")
            return self._about(session, key)

    def lock(self, key: bytes, about: About, label: Label) -> bytes:
        nonce = secret_bytes(NONCE_BYTES)
        with self._session() as session:
            locked = self._key(session).encrypt(key, **_gcm(nonce, label))
        return nonce + bytes(locked)

    def unlock(self, locked: bytes, about: About, label: Label) -> bytes:
        pkcs11 = _pkcs11()
        gone = (pkcs11.DeviceError, pkcs11.DeviceRemoved, pkcs11.TokenNotPresent)
        with self._session() as session:
            key = self._key(session)
            own = self._about(session, key)
            if own["fingerprint"] != about.get("fingerprint"):
                raise StoreError(
                    f"wrong key: it is locked with the key {about.get('key')} of the token"
                    f" {about.get('token')}, fingerprint {about.get('fingerprint')}; {self._name}"
                    f" has {own['fingerprint']}"
                )
            try:
                body = locked[NONCE_BYTES:]
                return bytes(key.decrypt(body, **_gcm(locked[:NONCE_BYTES], label)))
            except gone:
                raise
            except pkcs11.PKCS11Error:
                raise StoreError(DAMAGED_LOCK) from None

    def make_if_missing(self) -> None:
        """A new key in the token, if it has none of this label."""
        pkcs11 = _pkcs11()
        with self._session(rw=True) as session:
            try:
                session.get_key(label=self.label, object_class=pkcs11.ObjectClass.SECRET_KEY)
            except pkcs11.NoSuchKey:
                session.generate_key(
                    pkcs11.KeyType.AES,
                    8 * KEY_BYTES,
                    label=self.label,
                    id=secret_bytes(_KEY_ID_BYTES),
                    store=True,
                    capabilities=pkcs11.MechanismFlag.ENCRYPT | pkcs11.MechanismFlag.DECRYPT,
                    template={
                        _attribute("PRIVATE"): True,
                        _attribute("SENSITIVE"): True,
                        _attribute("EXTRACTABLE"): False,
                    },
                )

    @property
    def _name(self) -> str:
        return f"the key {self.label} of the token {self.token}"

    def _about(self, session: Session, key: Any) -> About:
        """The id tells keys apart that have the same label, and the check value those that were
        given the same id; a token need not have either."""
        pkcs11 = _pkcs11()
        marks = []
        for name in ("ID", "CHECK_VALUE"):
            try:
                marks.append(bytes(key[_attribute(name)]).hex())
            except pkcs11.PKCS11Error:
                marks.append("")
        serial = session.token.serial.decode(errors="replace")
        fingerprint = "-".join(mark for mark in marks if mark)
        return {
            "token": self.token,
            "serial": serial,
            "key": self.label,
            "fingerprint": fingerprint,
        }

    def _key(self, session: Session) -> Any:
        pkcs11 = _pkcs11()
        key = session.get_key(label=self.label, object_class=pkcs11.ObjectClass.SECRET_KEY)
        if key.key_type != pkcs11.KeyType.AES or key.key_length != 8 * KEY_BYTES:
            raise StoreError(f"{self._name} is not an AES key of 256 bits")
        return key

    @contextmanager
    def _session(self, *, rw: bool = False) -> Iterator[Session]:
        pkcs11 = _pkcs11()
        with _one_at_a_time:
            try:
                library = pkcs11.lib(self.library)
            except pkcs11.PKCS11Error:
                raise StoreError(f"cannot load the PKCS#11 library {self.library}") from None
            try:
                token = library.get_token(token_label=self.token)
                with token.open(user_pin=self.pin, rw=rw) as session:
                    yield session
            except pkcs11.PKCS11Error as error:
                raise StoreError(self._reason(error)) from None
            finally:
                library.finalize()

    def _reason(self, error: Exception) -> str:
        pkcs11 = _pkcs11()
        reasons: dict[tuple[type[Exception], ...], str] = {
            (pkcs11.NoSuchToken, pkcs11.TokenNotPresent, pkcs11.DeviceRemoved): (
                f"there is no PKCS#11 token {self.token}: connect it, or mend its name"
            ),
            (pkcs11.MultipleTokensReturned,): f"several PKCS#11 tokens are called {self.token}",
            (pkcs11.PinIncorrect, pkcs11.PinInvalid, pkcs11.PinLenRange): (
                f"wrong PIN for the PKCS#11 token {self.token}"
            ),
            (pkcs11.PinLocked,): f"the PIN of the PKCS#11 token {self.token} is locked",
            (pkcs11.NoSuchKey,): f"the PKCS#11 token {self.token} has no key {self.label}",
            (pkcs11.MultipleObjectsReturned,): (
                f"the PKCS#11 token {self.token} has several keys {self.label}"
            ),
        }
        for kinds, reason in reasons.items():
            if isinstance(error, kinds):
                return reason
        return f"the PKCS#11 token {self.token} has refused: {type(error).__name__}"


def _parts(text: str, separator: str, known: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(separator)):
        name, _, value = part.partition("=")
        if name == "pin-value":
            raise ParameterError(
                f"{SCHEME} a PIN is not written there: set {PIN_VARIABLE}, or name a file with"
                " pin-source="
            )
        if name not in known or name in found:
            allowed = ", ".join(sorted(_PATH_PARTS | _QUERY_PARTS))
            raise ParameterError(f"{SCHEME} {name} does not fit there; once each: {allowed}")
        found[name] = unquote(value)
    return found


def _gcm(nonce: bytes, label: Label) -> dict[str, Any]:
    pkcs11 = _pkcs11()
    parameters = pkcs11.GCMParams(nonce, label_bytes(label), _TAG_BITS)
    return {"mechanism": pkcs11.Mechanism.AES_GCM, "mechanism_param": parameters}


def _attribute(name: str) -> Any:
    return _pkcs11().Attribute[name]


def _pkcs11() -> Any:
    try:
        import pkcs11  # noqa: PLC0415  an extra
    except ImportError:
        raise StoreError("PKCS#11 is not installed: pip install 'pv4fad[pkcs11]'") from None
    return pkcs11
