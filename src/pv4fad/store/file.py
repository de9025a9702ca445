"""The SQLite file below a party's store: location, lock, version, what it says in the clear.

The file is locked while it is open, by SQLite itself, so the lock ends with the process.  A store
that is shared is locked by whoever has a transaction, and its folder by its owner (`owned`): that
lock ends with the process, too.  Commits are durable: the rollback journal is synced before the
file and truncated, synced, after it.  Whatever SQLite or the file system refuses becomes a
`StoreError` that names the folder.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pv4fad.errors import StoreError
from pv4fad.files import sync_folder
from pv4fad.store.key_lock import KeyLock
from pv4fad.store.migrations import INFO_TABLE, MIGRATIONS, migrate, present_info
from pv4fad.store.sealing import Label

FILE_NAME = "store.db"
FORMAT_VERSION = 6  # root keys of all kinds

_LABELS_SAY = 5  # a format later, sealed bytes are the same
_PAGE_BYTES = 32768
_PATIENCE_S = 60.0  # for a transaction of another process: a step of a training takes seconds
_PATIENCE_AT_WORK_S = (
    600.0  # of who has opened a shared store: a backup of a large one reads it all
)
_APPLICATION_ID = 0x50563453  # "PV4S": what SQLite files of ours say they are
_SCHEMA = (
    INFO_TABLE,
    """CREATE TABLE records (
        name TEXT NOT NULL, chunk INTEGER NOT NULL, n_chunks INTEGER NOT NULL,
        write_id BLOB NOT NULL, sealed BLOB NOT NULL,
        UNIQUE (name, chunk))""",
)
_INFO_TYPES = (str, str, bytes, str, str, str, bytes)


@dataclass(frozen=True)
class StoreInfo:
    """The only row of `info`: nothing in it is secret; the manifest is sealed."""

    store_id: str
    party: str
    manifest: bytes
    lock: KeyLock
    version: int = FORMAT_VERSION
    """The format of the file."""

    def label(self, *what: str | int) -> Label:
        """Says of something sealed that it belongs to this store."""
        return ("pv4fad store", _LABELS_SAY, self.store_id, self.party, *what)


def create_file(folder: Path) -> sqlite3.Connection:
    """A new, locked, empty file, for its owner only; complete once `write_new_info` is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        # Only a file that is new may be opened and closed here: closing releases all locks of this
        # process, so it would take an existing store from whoever has it open.
        with suppress(FileExistsError):
            os.close(os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"cannot make a store in {folder}: {error.strerror}") from None
    connection = _connect(folder)
    with closed_on_error(folder, connection):
        if _has_tables(connection):
            raise StoreError(f"{folder} already holds a store")
    return connection


def write_new_info(folder: Path, connection: sqlite3.Connection, info: StoreInfo) -> None:
    """Make the file a store, in one transaction: it has its key or does not exist."""
    connection.execute("BEGIN EXCLUSIVE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    lock = info.lock
    row = (info.store_id, info.party, info.manifest, lock.kind, lock.about_json, lock.since)
    connection.execute("INSERT INTO info VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, lock.locked_key))
    connection.execute("COMMIT")
    sync_folder(folder)  # SQLite syncs the file, not its name in the folder


def open_file(folder: Path, *, shared: bool = False) -> tuple[sqlite3.Connection, StoreInfo]:
    """An existing store file, locked unless it is shared; an earlier format becomes the present."""
    connection = _opened(folder, shared=shared)
    with closed_on_error(folder, connection):
        version = _version(folder, connection)
        if version != FORMAT_VERSION:
            _migrate(folder, connection, version)
        return connection, _read_info(folder, connection)


def _opened(folder: Path, *, shared: bool) -> sqlite3.Connection:
    if not (folder / FILE_NAME).is_file():
        raise StoreError(f"{folder} holds no store ({FILE_NAME} is missing)")
    # SQLite would open it for reading only, and find out at the first message.
    if not all(_writable(path) for path in (folder, folder / FILE_NAME)):
        raise StoreError(f"the store in {folder} cannot be written: no permission")
    return _connect(folder, shared=shared)


def owned(folder: Path) -> int:
    """A descriptor of the folder: as long as it is open, nobody else owns the store in it."""
    with store_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(f"the store in {folder} is in use by another process") from None
    return descriptor


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy of an SQLite file that others may be using; who writes waits meanwhile."""
    with store_errors(source.parent), ExitStack() as opened:
        # Not for reading only: SQLite may have to undo what a killed process has left.
        uri = source.absolute().as_uri() + "?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE_S, isolation_level=None)
        opened.enter_context(closing(connection))
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # waits here
        _copy(connection, target)


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    with store_errors(target.parent):
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(target)) as copy:
            connection.backup(copy)


def holds_store(folder: Path) -> bool:
    """Whether a store was completed in this folder."""
    if not (folder / FILE_NAME).is_file():
        return False
    with closing(_connect(folder)) as connection, store_errors(folder):
        return _has_tables(connection)


def info_of(folder: Path, *, shared: bool = False) -> StoreInfo:
    """Whose store this is, and what unlocks it; needs no root key, and leaves the file as it is.

    `shared`: another process may have it open, if it shares it.
    """
    connection = _opened(folder, shared=shared)
    with closing(connection), store_errors(folder):
        return _read_info(folder, connection)


def party_of(folder: Path, *, shared: bool = False) -> str:
    """Whose store this is."""
    return info_of(folder, shared=shared).party


@contextmanager
def store_errors(folder: Path) -> Iterator[None]:
    """Errors of SQLite and the file system as `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            reason = "is in use by another process"
        elif code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_SCHEMA")):
            reason = "is damaged; restore the folder from a backup"
        elif code.startswith("SQLITE_FULL"):
            reason = "cannot grow: the disk is full"
        else:
            reason = "cannot be read or written"
        raise StoreError(f"the store in {folder} {reason} ({error})") from None
    except UnicodeDecodeError:  # SQLite's error message quotes the damaged part
        raise StoreError(
            f"the store in {folder} is damaged; restore the folder from a backup"
        ) from None
    except OSError as error:
        raise StoreError(f"the store in {folder} cannot be written: {error.strerror}") from None


@contextmanager
def closed_on_error(folder: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Do not keep a file locked that could not be opened."""
    try:
        with store_errors(folder):
            yield
    except BaseException:
        connection.close()
        raise


def require_types(row: Any, wanted: tuple[type, ...], where: str) -> None:
    """A flipped bit can turn a number into a text; SQLite does not mind."""
    if row is None or tuple(map(type, row)) != wanted:
        raise StoreError(f"{where} is damaged; restore the folder from a backup")


def _has_tables(connection: sqlite3.Connection) -> bool:
    ((n_tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    return bool(n_tables)


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect(folder: Path, *, shared: bool = False) -> sqlite3.Connection:
    uri = (folder / FILE_NAME).absolute().as_uri() + "?mode=rw"
    patience_s = _PATIENCE_S if shared else 0.0
    with store_errors(folder):
        # isolation_level None: transactions begin and end where we say.
        connection = sqlite3.connect(
            uri, uri=True, timeout=patience_s, isolation_level=None, check_same_thread=False
        )
    with closed_on_error(folder, connection):
        # Of a new file.  Ciphertexts are megabytes: in small pages they take thrice the time.
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        if not shared:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")  # takes the lock, which the mode above then keeps
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA synchronous = FULL")
        # A replaced row is overwritten: a key under an old passphrase must not linger in the file.
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: to the disk, not to its cache
        if shared:
            connection.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_AT_WORK_S * 1000)}")
    return connection


def _version(folder: Path, connection: sqlite3.Connection) -> int:
    """Its format; `StoreError` unless it is the present one, or can become that."""
    ((application_id,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if application_id != _APPLICATION_ID:
        raise StoreError(f"{folder / FILE_NAME} is not a complete store of this program")
    if version not in (*MIGRATIONS, FORMAT_VERSION):
        raise StoreError(
            f"the store in {folder} has format {version}, this program uses {FORMAT_VERSION} and"
            f" reads {min(MIGRATIONS)} and later: use the version of pv4fad that made it, or begin"
            " with a new store"
        )
    return int(version)


def _read_info(folder: Path, connection: sqlite3.Connection) -> StoreInfo:
    version = _version(folder, connection)
    row = connection.execute("SELECT * FROM info").fetchone()
    try:
        row = present_info(row, version, FORMAT_VERSION)
    except ValueError:
        row = None
    require_types(row, _INFO_TYPES, f"the store in {folder}")
    store_id, party, manifest, *lock = row
    return StoreInfo(store_id, party, manifest, KeyLock(*lock), version)


def _migrate(folder: Path, connection: sqlite3.Connection, version: int) -> None:
    descriptor = owned(folder)  # of a store that is shared, an older program may be the owner
    copy = folder / f"{FILE_NAME}.format-{version}"
    try:
        copy.unlink(missing_ok=True)  # of an attempt that was interrupted
        _copy(connection, copy)
        migrate(connection, FORMAT_VERSION)
    except ValueError:
        require_types(None, (), f"the store in {folder}")
    finally:
        os.close(descriptor)


def forget_earlier_formats(folder: Path) -> None:
    """The copies that were kept when the format changed: an earlier root key opens them."""
    for path in folder.glob(f"{FILE_NAME}.format-*"):
        path.unlink()
