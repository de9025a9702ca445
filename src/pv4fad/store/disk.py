"""A party's store on disk: one SQLite file, every value sealed (docs/operate/stores.md).

SQLite makes a transaction atomic and durable; values are sealed here before SQLite sees them.
A value is cut into chunks, so that 100 MB need little more memory than themselves.

    label of a chunk:  store, party, format, name, write id (fresh per write), chunk, chunks
    manifest:          XOR over all records of HMAC(write id, name), sealed with each transaction

The label stops a chunk from standing in for another one; the manifest shows that a record was
removed or put back to an older version.  An older copy of the whole file cannot be recognised.

A store has one process, or it is *shared*: one process owns it, others are guests, and transactions
wait for each other.  What another process has written is noticed when the next transaction begins.
"""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, replace
from hmac import digest as hmac_digest
from pathlib import Path
from typing import Self

from pv4fad.errors import StoreError
from pv4fad.randomness import secret_bytes
from pv4fad.store.file import (
    StoreInfo,
    closed_on_error,
    create_file,
    forget_earlier_formats,
    open_file,
    owned,
    require_types,
    store_errors,
    write_new_info,
)
from pv4fad.store.key_lock import KeyLock
from pv4fad.store.sealing import Label, RootKey, Sealer, new_store_key
from pv4fad.store.store import Store

CHUNK_BYTES = 8 * 2**20
ID_BYTES = 16
MANIFEST_BYTES = 32


class DiskStore(Store):
    """Made by `create` or `open`; `close` (or a `with` block) lets another process have it."""

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        info: StoreInfo,
        key: bytes,
        *,
        owner: int | None = None,
        shared: bool = False,
    ) -> None:
        """`owner`: a descriptor that keeps others from owning it."""
        super().__init__(info.party)
        self.folder = folder
        self._owner, self._shared = owner, shared
        self._version = -1  # changes when another process has written
        self._connection = connection
        self._info = info
        self._key = key
        self._sealer = Sealer(key)
        self._manifest_key = hmac_digest(key, b"pv4fad manifest", "sha256")
        # The names are taken from here, not from SQLite's index: one that is damaged there could
        # seem never to have been written.
        self._write_ids: dict[str, bytes] = {}
        self._manifest = 0
        self._manifest_before = 0  # the transaction under way

    @classmethod
    def create(cls, folder: Path, party: str, root_key: RootKey) -> Self:
        """A new, empty store in `folder`, which is made if need be and closed to others."""
        key, store_id = new_store_key(), secret_bytes(ID_BYTES).hex()
        info = StoreInfo(store_id, party, b"", KeyLock("", "", "", b""))
        info = replace(info, lock=KeyLock.made(root_key, key, info.label))
        connection = create_file(folder)
        with closed_on_error(folder, connection):
            store = cls(folder, connection, info, key)
            store._info = replace(info, manifest=store._sealed_manifest())
            write_new_info(folder, connection, store._info)
        return store

    @classmethod
    def open(cls, folder: Path, root_key: RootKey) -> Self:
        """The store in `folder`, for this process alone."""
        return cls._open(folder, root_key, owner=True, shared=False)

    @classmethod
    def open_shared(cls, folder: Path, root_key: RootKey, *, owner: bool) -> Self:
        """The store in `folder`, as its owner or as a guest."""
        return cls._open(folder, root_key, owner=owner, shared=True)

    @classmethod
    def _open(cls, folder: Path, root_key: RootKey, *, owner: bool, shared: bool) -> Self:
        with ExitStack() as opened:
            connection, info = open_file(folder, shared=shared)
            opened.callback(connection.close)
            descriptor = None
            if owner:
                descriptor = owned(folder)
                opened.callback(os.close, descriptor)
            try:
                key = info.lock.unlock(root_key, info.label)
            except StoreError as error:
                raise StoreError(f"store of {info.party} in {folder}: {error}") from None
            store = cls(folder, connection, info, key, owner=descriptor, shared=shared)
            with store._reading():
                store._load_names()
            opened.pop_all()
        return store

    @property
    def lock(self) -> KeyLock:
        """What unlocks this store."""
        return self._info.lock

    def rotate(self, new: RootKey) -> None:
        """From now on the new root key opens this store, and the old one does not.

        No record changes.  Copies made before keep the old root key.
        """
        if self.lock.is_opened_by(new, self._info.label):
            where = f"store of {self.party} in {self.folder}"
            raise StoreError(f"{where}: it is already locked with this {new.kind}")
        lock = KeyLock.made(new, self._key, self._info.label)
        with self.transaction(), store_errors(self.folder):
            self._connection.execute(
                "UPDATE info SET key_kind = ?, key_about = ?, key_since = ?, locked_key = ?",
                astuple(lock),
            )
        self._info = replace(self._info, lock=lock)
        with store_errors(self.folder):
            forget_earlier_formats(self.folder)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def _read(self, key: str) -> bytes | None:
        value, n_found, n_chunks = io.BytesIO(), 0, 0
        with self._reading():
            if key not in self._write_ids:
                return None
            rows = self._connection.execute(
                "SELECT n_chunks, sealed FROM records WHERE name = ? ORDER BY chunk", (key,)
            )
            for row in rows:
                require_types(row, (int, bytes), self._record(key))
                n_chunks, sealed = row
                label = self._chunk_label(key, self._write_ids[key], n_found, n_chunks)
                value.write(self._open_sealed(sealed, label, key))
                n_found += 1
        if n_found == 0 or n_found != n_chunks:
            raise StoreError(f"{self._record(key)} is incomplete")
        return value.getvalue()

    def _names(self, prefix: str) -> list[str]:
        with self._reading():
            return sorted(name for name in self._write_ids if name.startswith(prefix))

    def _write(self, key: str, value: bytes) -> None:
        self._erase(key)
        write_id = secret_bytes(ID_BYTES)
        view = memoryview(value)
        n_chunks = max(1, -(-len(view) // CHUNK_BYTES))
        with store_errors(self.folder):
            for chunk in range(n_chunks):
                plain = view[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
                label = self._chunk_label(key, write_id, chunk, n_chunks)
                self._connection.execute(
                    "INSERT INTO records VALUES (?, ?, ?, ?, ?)",
                    (key, chunk, n_chunks, write_id, self._sealer.seal(plain, label)),
                )
        self._write_ids[key] = write_id
        self._manifest ^= self._manifest_term(key, write_id)

    def _erase(self, key: str) -> None:
        if key in self._write_ids:
            with store_errors(self.folder):
                self._connection.execute("DELETE FROM records WHERE name = ?", (key,))
            self._manifest ^= self._manifest_term(key, self._write_ids.pop(key))

    def _begin(self) -> None:
        with store_errors(self.folder):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._look_again()
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        self._manifest_before = self._manifest

    def _commit(self) -> None:
        with store_errors(self.folder):
            # Every write changes it; a transaction that only read has nothing to wait for.
            if self._manifest != self._manifest_before:
                self._connection.execute("UPDATE info SET manifest = ?", (self._sealed_manifest(),))
            self._connection.execute("COMMIT")

    def _rollback(self) -> None:
        try:
            with store_errors(self.folder):
                # After some errors, such as a full disk, SQLite has already rolled back; and an
                # interrupt can come just after the commit.  What counts is what the file says.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                with self._reading():
                    self._load_names()
        except StoreError:
            self.close()
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While the block lasts, the names are those of the file."""
        with store_errors(self.folder):
            if not self._shared or self._connection.in_transaction:
                self._connection.execute("SELECT 1")  # is it open?
                yield
                return
            self._connection.execute("BEGIN")
            try:
                self._look_again()
                yield
            finally:
                self._connection.execute("ROLLBACK")  # nothing was written

    def _look_again(self) -> None:
        """Inside a transaction: has another process written?"""
        if self._shared:
            ((version,),) = self._connection.execute("PRAGMA data_version")
            if version != self._version:
                self._load_names()
                self._version = version

    def _record(self, key: str) -> str:
        return f"store of {self.party} in {self.folder}: record {key}"

    def _chunk_label(self, key: str, write_id: bytes, chunk: int, n_chunks: int) -> Label:
        return self._info.label("record", key, write_id.hex(), chunk, n_chunks)

    def _open_sealed(self, sealed: bytes, label: Label, key: str) -> bytes:
        try:
            return self._sealer.open(sealed, label)
        except StoreError as error:
            raise StoreError(f"{self._record(key)}: {error}") from None

    def _manifest_term(self, key: str, write_id: bytes) -> int:
        term = hmac_digest(self._manifest_key, write_id + key.encode(), "sha256")
        return int.from_bytes(term, "big")

    def _sealed_manifest(self) -> bytes:
        plain = self._manifest.to_bytes(MANIFEST_BYTES, "big")
        return self._sealer.seal(plain, self._info.label("manifest"))

    def _load_names(self) -> None:
        """Take the names and the manifest from the file, which must agree."""
        self._write_ids, self._manifest = {}, 0
        for row in self._connection.execute("SELECT name, write_id FROM records WHERE chunk = 0"):
            require_types(row, (str, bytes), f"the store in {self.folder}")
            self._write_ids[row[0]] = row[1]
            self._manifest ^= self._manifest_term(*row)
        row = self._connection.execute("SELECT manifest FROM info").fetchone()
        require_types(row, (bytes,), f"the store in {self.folder}")
        noted = self._open_sealed(row[0], self._info.label("manifest"), "manifest")
        if noted != self._manifest.to_bytes(MANIFEST_BYTES, "big"):
            raise StoreError(
                f"store of {self.party} in {self.folder}: records were removed, added or put back;"
                " restore the folder from a backup"
            )
