"""Who may do what: tokens of programs and people, sessions of people.

A token is 256 random bits, shown once; `live/access.json` in the party's folder has its name, what
it is for, and its SHA-256, and is for the owner's eyes only.  (A hash that is slow to compute would
protect nothing more: nobody guesses 256 bits.)

    payments   POST /payments               programs; a client certificate does as well
    metrics    GET /metrics                 programs; of a station, elsewhere than on loopback
    desk       the alert desk or the inbox  people, who log in with it

Whoever logs in gets a session: a cookie with 256 random bits, of which the service keeps the hash,
and a CSRF token that every form carries.  Sessions are in memory and end with the process, with
the token that they were begun with, after an hour in which the person did nothing, and after twelve
in any case.  A page that asks for news by itself is nothing that a person does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pv4fad.errors import DataError, ParameterError
from pv4fad.files import write_whole
from pv4fad.randomness import secret_bytes
from pv4fad.service.journal import FOLDER

Use = Literal["payments", "metrics", "desk"]
USES: tuple[Use, ...] = get_args(Use)
FILE_NAME = "access.json"
IDLE_S, LONGEST_S = 3600.0, 12 * 3600.0
MOST_SESSIONS = 1_000
_TOKEN_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


@dataclass(frozen=True)
class Holder:
    """Whose token it is, and what for."""

    name: str
    use: Use
    hash: str = field(repr=False)


class Tokens:
    """The tokens of a party's folder; a change of the file is noticed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FOLDER / FILE_NAME
        self._read: tuple[float, list[Holder]] = (0.0, [])

    def holders(self) -> list[Holder]:
        try:
            changed = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed != self._read[0]:
            try:
                content = json.loads(self._path.read_text(encoding="utf-8"))
                self._read = (changed, [Holder(**one) for one in content])
            except (ValueError, TypeError):
                raise DataError(f"{self._path} is damaged: delete it and make new tokens") from None
        return self._read[1]

    def create(self, name: str, use: str) -> str:
        """A new token, in place of one that this name has for this use; it is stored nowhere."""
        if not _NAME.fullmatch(name):
            raise ParameterError("name: letters, digits, spaces and . _ @ -, at most 64")
        if use not in USES:
            raise ParameterError(f"use {use}: choose one of {', '.join(USES)}")
        token = secret_bytes(_TOKEN_BYTES).hex()
        others = [one for one in self.holders() if (one.name, one.use) != (name, use)]
        self._write([*others, Holder(name, use, hash_of(token))])
        return token

    def remove(self, name: str) -> None:
        """All tokens of this name."""
        left = [one for one in self.holders() if one.name != name]
        if len(left) == len(self.holders()):
            raise ParameterError(f"{name} has no token")
        self._write(left)

    def who(self, token: str, use: Use) -> str | None:
        """The name of the holder; looks at every token, whichever fits."""
        presented, found = hash_of(token), None
        for holder in self.holders():
            if hmac.compare_digest(holder.hash, presented) and holder.use == use:
                found = holder.name
        return found

    def has(self, token_hash: str, use: Use) -> bool:
        """Whether a token has not been taken back."""
        return any((one.hash, one.use) == (token_hash, use) for one in self.holders())

    def may_read_metrics(self, token: str) -> bool:
        return self.who(token, "metrics") is not None

    def _write(self, holders: list[Holder]) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(self._path, json.dumps([vars(one) for one in holders]) + "\n", private=True)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


@dataclass
class Session:
    """Somebody who has logged in."""

    who: str
    csrf: str = field(repr=False)
    begun: float
    used: float
    token: str = field(default="", repr=False)
    """The hash of the token."""


class Sessions:
    """By the hash of the cookie."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_there: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`is_there`: whether the token of this hash has not been taken back."""
        self._clock, self._is_there = clock, is_there
        self._sessions: dict[str, Session] = {}
        self._login_key = secret_bytes(_TOKEN_BYTES)

    def begin(self, who: str, token: str = "") -> str:
        """The cookie of a new session."""
        if len(self._sessions) >= MOST_SESSIONS:
            oldest = min(self._sessions, key=lambda one: self._sessions[one].used)
            del self._sessions[oldest]
        cookie, now = secret_bytes(_TOKEN_BYTES).hex(), self._clock()
        csrf = secret_bytes(_TOKEN_BYTES).hex()
        self._sessions[hash_of(cookie)] = Session(who, csrf, now, now, hash_of(token))
        return cookie

    def get(self, cookie: str | None, *, is_used: bool = True) -> Session | None:
        """The session, if it has not ended; `is_used`: for something that its person does."""
        session = None if cookie is None else self._sessions.get(hash_of(cookie))
        if cookie is None or session is None:
            return None
        now = self._clock()
        is_over = now - session.used > IDLE_S or now - session.begun > LONGEST_S
        if is_over or not self._is_there(session.token):
            self.end(cookie)
            return None
        if is_used:
            session.used = now
        return session

    def end(self, cookie: str) -> None:
        self._sessions.pop(hash_of(cookie), None)

    # Before the login there is no session: its form is bound to a cookie by a keyed hash.

    def begin_login(self) -> str:
        """The cookie of a login form."""
        return secret_bytes(_TOKEN_BYTES).hex()

    def login_form(self, nonce: str) -> str:
        """What the form has to carry."""
        return hmac.new(self._login_key, nonce.encode(), "sha256").hexdigest()


def same(one: str, other: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))
