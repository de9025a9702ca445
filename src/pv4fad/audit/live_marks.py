"""Live messages in the audit: every so many of them, their sender signs how far its chain is.

    head_n = SHA-256(head_(n−1) ‖ n ‖ message n)      one chain for each direction of a live session
    mark   = n, head_n, the latest mark that the sender has of the other direction; signed

Ticks come many times a second, so nothing is kept of a single message: both ends keep the marks, in
a file of their own beside the store, which may be busy.  Who changes, leaves out, moves or replaces
a message gets another head, and has signed, or confirmed, the one before.  Nothing in a mark is
secret: neither what was asked nor how much.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field, ValidationError

from pv4fad.audit.stamp import HASH_BYTES, Mark
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.protocol.parameters import Name
from pv4fad.validated import ValidatedModel

MARKS_FILE = Path("live") / "marks.jsonl"
_PURPOSE = b"pv4fad live mark, version 1"
_NUMBER = struct.Struct(">Q")


def first_live_head(session: bytes, sender: str, receiver: str) -> bytes:
    """Of a chain without a message."""
    return hashlib.sha256(_framed(_PURPOSE, session, sender.encode(), receiver.encode())).digest()


def next_live_head(head: bytes, number: int, message: bytes) -> bytes:
    """After one more message."""
    hashed = hashlib.sha256(head + _NUMBER.pack(number))
    hashed.update(message)
    return hashed.digest()


class LiveMark(ValidatedModel):
    """How far the live messages from one party to another are, signed by their sender."""

    session: str = Field(pattern="^([0-9a-f]{2})+$")
    sender: Name
    receiver: Name
    key: str = Field(pattern="^[0-9a-f]{64}$")
    """The sender's signing key."""
    number: int = Field(ge=1, lt=2**64)
    head: str = Field(pattern="^[0-9a-f]{64}$")
    seen_number: int = Field(ge=0, lt=2**64)
    """Of the latest mark that the sender has of the other direction; 0: of none yet."""
    seen_head: str = Field(pattern="^[0-9a-f]{64}$")
    time_ms: int = Field(ge=0, lt=2**64)
    signature: str = Field(pattern="^[0-9a-f]{128}$")
    missing: int = Field(default=0, ge=0, lt=2**64)
    """At the receiver: messages of the session that had not arrived by then.  Not signed."""

    @property
    def mark(self) -> Mark:
        return Mark(self.number, bytes.fromhex(self.head))

    @property
    def is_signed(self) -> bool:
        """By the owner of the key."""
        seen = Mark(self.seen_number, bytes.fromhex(self.seen_head))
        ends = (self.sender, self.receiver)
        said = statement(bytes.fromhex(self.session), ends, self.mark, seen, self.time_ms)
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            key.verify(bytes.fromhex(self.signature), said)
        except (InvalidSignature, ValueError):
            return False
        return True


def statement(session: bytes, ends: tuple[str, str], mark: Mark, seen: Mark, time_ms: int) -> bytes:
    """What is signed; `ends`: sender and receiver."""
    names = (name.encode() for name in ends)
    numbers = (_NUMBER.pack(value) for value in (mark.number, seen.number, time_ms))
    return _framed(_PURPOSE, session, *names, *numbers, mark.head, seen.head)


_LAST_BYTES = 4096  # some lines
NOTHING_SEEN = Mark(0, bytes(HASH_BYTES))


class MarkLog:
    """A party's marks, those it has signed and those it has got; one line for each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def append(self, mark: LiveMark) -> None:
        """Kept when this returns, also if the process is killed then.

        `StoreError` if the disk does not take it; then nothing of it is in the file.
        """
        try:
            if self._file is None:
                self._file = self._open()
            _write_line(self._file, mark.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from None

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(file, _end_of_lines(file))  # a power cut may leave half of a line
        return file

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @classmethod
    def read(cls, path: Path) -> tuple[LiveMark, ...]:
        """All marks in a file; none if there is no file."""
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
            return tuple(map(LiveMark.model_validate_json, lines))
        except FileNotFoundError:
            return ()
        except (ValidationError, ParameterError):
            raise DataError(f"{path} is damaged: it holds the marks of live messages") from None

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """Of a party's folder."""
        return cls(folder / MARKS_FILE)


def _end_of_lines(file: int) -> int:
    """Behind the last whole line; the log of a year is not read for that."""
    size, n_bytes = os.fstat(file).st_size, _LAST_BYTES
    while True:
        start = max(0, size - n_bytes)
        end = start + os.pread(file, n_bytes, start).rfind(b"\n") + 1
        if end > start or start == 0:
            return end
        n_bytes *= 2


def _write_line(file: int, line: bytes) -> None:
    before = os.fstat(file).st_size
    if os.write(file, line) < len(line):
        os.ftruncate(file, before)  # or the next line would become part of this one
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
