"""The journal: every decision of the service, on disk before it is answered, once per payment id.

One SQLite file beside the payment network's store, written ahead (WAL), with one commit and one
fsync for all decisions that have come together meanwhile.  A commit is there or it is not: after
kill -9 or a power cut the journal ends with the last one.

    blocks    the decisions of one commit with their payments: JSON, compressed, sealed
    ids       HMAC(payment id) → block and position: finds a payment that comes again
    alerts    each alert once more, on its own, sealed
    actions   what people did at the desk, and what became of hand-overs; sealed
    questions what banks were asked and what they said, until the store has it; sealed
    head      how many there are of each, sealed with every commit

Sealed is as in the stores (AES-256-GCM, bound to what it is and to its number); the key is a record
of the payment network's store.  What a copy of the file shows: numbers and sizes of commits, how
many decisions, alerts and actions there are, and in which order they came.  It shows no id, amount,
account, level or time, and not whether two payments have an account in common.

A row that is missing or put back is noticed when the journal is opened or read.  Not noticed is an
older copy of the whole file, as with the stores, and an id in `ids` that somebody with write access
has replaced: its payment can get a second decision.  (To look through all ids at every start would
take seconds for every million.)  One process at a time, but for who makes a backup or only looks
(`look`); its threads take turns.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from hmac import digest as hmac_digest
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pv4fad.errors import OrderError, StoreError
from pv4fad.files import sync_folder
from pv4fad.randomness import secret_bytes
from pv4fad.store.file import owned, store_errors
from pv4fad.store.records import Record, Records
from pv4fad.store.sealing import KEY_BYTES, Sealer
from pv4fad.store.store import Store

FOLDER, FILE_NAME = "live", "journal.db"
_APPLICATION_ID = 0x5056344A  # "PV4J"
_VERSION = 2
_ID_BYTES = 16
T = TypeVar("T")
_PATIENCE_S = 60.0  # of who only looks, while a service begins or ends
_IDS_AT_ONCE = 300  # SQLite allows 999 parameters and more
_TABLES = ("blocks", "ids", "alerts", "actions", "questions")
_FORGOTTEN = "forgotten"  # questions: their numbers go on, so that no old row passes for a new one
_SCHEMA = (
    "CREATE TABLE head (journal BLOB NOT NULL, sealed BLOB NOT NULL)",
    "CREATE TABLE blocks (number INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
    """CREATE TABLE ids (
        id BLOB PRIMARY KEY, block INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE alerts (number INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
    "CREATE TABLE actions (number INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
    "CREATE TABLE questions (number INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
)


@dataclass(frozen=True)
class JournalKey(Record):
    """In the payment network's store: what the journal is sealed with."""

    of_all_runs: ClassVar[bool] = True

    key: bytes = field(repr=False)


def journal_key(store: Store) -> bytes:
    """The key of the journal, made on first use."""
    with store.transaction() as tx:
        records = Records.of_party(tx)
        kept = records.find(JournalKey)
        if kept is None:
            kept = JournalKey(secret_bytes(KEY_BYTES))
            records.put(kept)
    return kept.key


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision with its payment, as it is kept."""

    payment_id: str
    digest: str
    """Of the payment: another payment with this id is refused."""
    answer: str
    """What the client got or gets, to the byte."""
    names: tuple[str, ...] = field(repr=False)
    """Of the payment's columns; the same object for many entries."""
    text: str = field(repr=False)
    """The payment's values, as a JSON array (`intake`)."""
    alert: bool = False

    @property
    def payment(self) -> dict[str, Any]:
        """By name."""
        return dict(zip(self.names, json.loads(self.text), strict=True))


class Journal:
    """Made by `open`; `close` (or a `with` block) lets another process have it."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, key: bytes, *, owner: int | None
    ) -> None:
        """`owner`: a descriptor that keeps other processes from it; None for who only looks."""
        self.path = path
        self._owner = owner
        self._connection = connection
        self._sealer = Sealer(hmac_digest(key, b"pv4fad journal", "sha256"))
        self._id_key = hmac_digest(key, b"pv4fad journal ids", "sha256")
        self._id = b""
        self._counts = dict.fromkeys((*_TABLES, _FORGOTTEN), 0)
        # SQLite and fsync must not stop an event loop.
        self._thread = ThreadPoolExecutor(1, "journal")
        self._turn = threading.RLock()
        self._notes: deque[tuple[Mapping[str, Any], Future[None]]] = deque()
        """Questions and answers that wait for the next commit."""

    @classmethod
    def open(cls, folder: Path, key: bytes) -> Self:
        """The journal of a party's folder; a new one if there is none."""
        path = folder / FOLDER / FILE_NAME
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as opened:
            owner = owned(path.parent)
            opened.callback(os.close, owner)
            connection = opened.enter_context(closing(_connect(path)))
            journal = cls(path, connection, key, owner=owner)
            with store_errors(path.parent):
                journal._load()
            opened.pop_all()
        return journal

    @classmethod
    def look(cls, folder: Path, key: bytes) -> Self:
        """The journal as it is now, for reading; a service that has it goes on writing."""
        path = folder / FOLDER / FILE_NAME
        if not path.is_file():
            raise StoreError(f"{path}: not found; the service has not run yet")
        with ExitStack() as opened, store_errors(path.parent):
            connection = opened.enter_context(closing(_opened(path, patience_s=_PATIENCE_S)))
            _require_version(connection, path)
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")  # all is read as it was at the first query
            journal = cls(path, connection, key, owner=None)
            journal._load()
            opened.pop_all()
        return journal

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._connection.close()
        if self._owner is not None:
            os.close(self._owner)

    def aside(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Something that the journal does, in a thread of its own: in turn, and begun at once."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """Another one for every journal."""
        return self._id.hex()

    @property
    def n_decisions(self) -> int:
        return self._counts["ids"]

    @property
    def n_blocks(self) -> int:
        """Commits with decisions."""
        return self._counts["blocks"]

    # Decisions.

    def write(self, entries: Sequence[Entry]) -> list[int]:
        """All of them, durable on return, or none; the numbers of those that are alerts.

        `OrderError` if a payment id is known: it has its decision.
        """
        if not entries:
            return []
        with self._turn:
            return self._write(entries)

    def _write(self, entries: Sequence[Entry]) -> list[int]:
        block = self._counts["blocks"]
        names = entries[0].names
        content = [names, [[e.payment_id, e.digest, e.answer, e.text, e.alert] for e in entries]]
        alerts = [
            (self._counts["alerts"] + offset, [entry.answer, entry.payment])
            for offset, entry in enumerate(entry for entry in entries if entry.alert)
        ]
        ids = [(self._hidden(e.payment_id), block, at) for at, e in enumerate(entries)]
        with (
            self._waiting_notes() as notes,
            self._commit(
                {"blocks": 1, "ids": len(ids), "alerts": len(alerts), "questions": len(notes)}
            ) as connection,
        ):
            try:
                for start in range(0, len(ids), _IDS_AT_ONCE):
                    some = ids[start : start + _IDS_AT_ONCE]
                    marks = ",".join(["(?, ?, ?)"] * len(some))
                    # One statement: after each of them the thread waits for its turn.
                    connection.execute(f"INSERT INTO ids VALUES {marks}", list(chain(*some)))  # noqa: S608
            except sqlite3.IntegrityError:
                raise OrderError("a payment in this batch has been decided before") from None
            self._insert("blocks", block, content)
            for number, alert in alerts:
                self._insert("alerts", number, alert)
            self._insert_notes(notes)
        return [number for number, _ in alerts]

    def find(self, payment_ids: Sequence[str]) -> dict[str, Entry]:
        """Those of these payments that have been decided."""
        hidden = {self._hidden(one): one for one in payment_ids}
        keys, places = list(hidden), []
        with self._turn, store_errors(self.path.parent):
            for start in range(0, len(keys), _IDS_AT_ONCE):
                some = keys[start : start + _IDS_AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT id, block, position FROM ids WHERE id IN ({marks})"  # noqa: S608
                places += self._connection.execute(query, some).fetchall()
        blocks = {number: self._block(number) for number in {block for _, block, _ in places}}
        if any(not 0 <= position < len(blocks[block]) for _, block, position in places):
            raise self._damaged()
        found = {hidden[key]: blocks[block][position] for key, block, position in places}
        if any(payment_id != entry.payment_id for payment_id, entry in found.items()):
            raise self._damaged()
        return found

    def blocks(self, since: int = 0) -> Iterator[list[Entry]]:
        """The decisions of each commit from this number on, in order; those made meanwhile, too."""
        number = since
        while number < self._counts["blocks"]:
            yield self._block(number)
            number += 1

    def decisions(self) -> Iterator[Entry]:
        """All of them, in order."""
        for block in self.blocks():
            yield from block

    def latest(self, most: int) -> list[Entry]:
        """The last `most` decisions, or a few more, in order."""
        blocks: list[list[Entry]] = []
        n_found, number = 0, self._counts["blocks"]
        while n_found < most and number > 0:
            number -= 1
            blocks.append(self._block(number))
            n_found += len(blocks[-1])
        return [entry for block in reversed(blocks) for entry in block]

    # The desk.

    def alerts(self, most: int | None = None) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Number, answer and payment of each alert, or of the last `most` of them, in order."""
        n_alerts = self._counts["alerts"]
        for number in range(0 if most is None else max(0, n_alerts - most), n_alerts):
            answer, payment = self._read("alerts", number)
            yield number, answer, payment

    def alert(self, number: int) -> tuple[str, dict[str, Any]] | None:
        """Answer and payment; None if there is no such alert."""
        if not 0 <= number < self._counts["alerts"]:
            return None
        answer, payment = self._read("alerts", number)
        return answer, payment

    def act(self, action: Mapping[str, Any]) -> int:
        """Keep what somebody did; durable on return."""
        with self._turn:
            number = self._counts["actions"]
            with self._commit({"actions": 1}):
                self._insert("actions", number, action)
        return number

    def actions(self) -> Iterator[dict[str, Any]]:
        """Everything that people did, in order."""
        for number in range(self._counts["actions"]):
            yield self._read("actions", number)

    # What banks were asked.

    def ask(self, note: Mapping[str, Any]) -> Future[None]:
        """Keep questions or answers, with the next commit; durable when it is done.

        What is written after this call is in that commit, or in a later one.
        """
        kept: Future[None] = Future()
        self._notes.append((note, kept))
        self._thread.submit(self._write_notes)
        return kept

    def _write_notes(self) -> None:
        """Those that no commit has taken along."""
        if self._notes:
            with (
                self._turn,
                self._waiting_notes() as notes,
                self._commit({"questions": len(notes)}),
            ):
                self._insert_notes(notes)

    @contextmanager
    def _waiting_notes(self) -> Iterator[list[Mapping[str, Any]]]:
        """All that wait; they are told when the block has ended, or why it could not."""
        waiting = [self._notes.popleft() for _ in range(len(self._notes))]
        try:
            yield [note for note, _ in waiting]
        except BaseException as error:
            for _, kept in waiting:
                if kept.set_running_or_notify_cancel():  # who no longer waits is not told
                    kept.set_exception(error)
            raise
        for _, kept in waiting:
            if kept.set_running_or_notify_cancel():
                kept.set_result(None)

    def _insert_notes(self, notes: Sequence[Mapping[str, Any]]) -> None:
        for number, note in enumerate(notes, self._counts["questions"]):
            self._insert("questions", number, note)

    def questions(self) -> Iterator[dict[str, Any]]:
        """All that is kept of them, in order."""
        for number in range(self._counts[_FORGOTTEN], self._counts["questions"]):
            yield self._read("questions", number)

    def replace_questions(self, n_first: int, notes: Sequence[Mapping[str, Any]]) -> None:
        """Keep these instead of the first `n_first` that are kept: the rest is somewhere else."""
        more = {"questions": len(notes), _FORGOTTEN: n_first}
        with self._turn, self._commit(more) as connection:
            before = self._counts[_FORGOTTEN] + n_first
            connection.execute("DELETE FROM questions WHERE number < ?", (before,))
            self._insert_notes(notes)

    # Below.

    def _load(self) -> None:
        row = self._connection.execute("SELECT journal, sealed FROM head").fetchone()
        if row is None:  # new; if there are rows, they lack a head
            self._id = secret_bytes(_ID_BYTES)
            new = (self._id, self._sealed_head(self._counts))
            self._connection.execute("INSERT INTO head VALUES (?, ?)", new)
        else:
            self._id, sealed = row
            self._counts = json.loads(self._sealer.open(sealed, self._label("head", 0)))
        for table in _TABLES:
            ((n_rows,),) = self._connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
            gone = self._counts[_FORGOTTEN] if table == "questions" else 0
            if n_rows != self._counts[table] - gone:
                raise self._damaged()

    @contextmanager
    def _commit(self, more: Mapping[str, int]) -> Iterator[sqlite3.Connection]:
        """One transaction, with the head that counts what it adds."""
        counts = {table: n + more.get(table, 0) for table, n in self._counts.items()}
        with store_errors(self.path.parent):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("UPDATE head SET sealed = ?", (self._sealed_head(counts),))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._counts = counts

    def _sealed_head(self, counts: Mapping[str, int]) -> bytes:
        return self._sealer.seal(json.dumps(counts).encode(), self._label("head", 0))

    def _insert(self, table: str, number: int, content: Any) -> None:
        plain = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
        sealed = self._sealer.seal(plain, self._label(table, number))
        self._connection.execute(f"INSERT INTO {table} VALUES (?, ?)", (number, sealed))  # noqa: S608

    def _read(self, table: str, number: int) -> Any:
        with self._turn, store_errors(self.path.parent):
            query = f"SELECT sealed FROM {table} WHERE number = ?"  # noqa: S608
            row = self._connection.execute(query, (number,)).fetchone()
        if row is None:
            raise self._damaged()
        return json.loads(zlib.decompress(self._sealer.open(row[0], self._label(table, number))))

    def _block(self, number: int) -> list[Entry]:
        names, entries = self._read("blocks", number)
        names = tuple(names)
        return [
            Entry(payment_id, digest, answer, names, text, alert)
            for payment_id, digest, answer, text, alert in entries
        ]

    def _hidden(self, payment_id: str) -> bytes:
        return hmac_digest(self._id_key, payment_id.encode(), "sha256")[:_ID_BYTES]

    def _label(self, table: str, number: int) -> tuple[str | int, ...]:
        return ("pv4fad journal", _VERSION, self._id.hex(), table, number)

    def _damaged(self) -> StoreError:
        return StoreError(f"{self.path} is damaged: restore it from a backup")


def _connect(path: Path) -> sqlite3.Connection:
    folder = path.parent
    with store_errors(folder):
        is_new = not path.exists()
        if is_new:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = _opened(path)
    try:
        with store_errors(folder):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # every commit reaches the disk
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN EXCLUSIVE")
            ((n_tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
            if not n_tables:
                _create(connection)
            connection.execute("COMMIT")
            _require_version(connection, path)
            sync_folder(folder)  # SQLite syncs the file, not its name in the folder
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(path: Path, patience_s: float = 0.0) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)


def _require_version(connection: sqlite3.Connection, path: Path) -> None:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if (application, version) != (_APPLICATION_ID, _VERSION):
        raise StoreError(f"{path} is no journal of this version of the program")


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
