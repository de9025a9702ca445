"""What is known of payments before they are judged: the training rows, and all payments since.

Known are the payments of the journal and those under way, no others.  If payments cannot be decided
they are forgotten: before the next batch all is put together again, as after a restart.

    restart       the latest snapshot, and the payments that the journal has had since
    first start   the training rows, and the payments of the journal that are not among them

A snapshot is taken after so many payments that the next restart takes seconds.  It may have
payments that are still under way: it is stored when the journal has all of them, or never.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hmac import digest as hmac_digest
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError, StoreError
from pv4fad.lead.known_rows import KnownRows
from pv4fad.lead.rows import NewRows
from pv4fad.schema import Schema
from pv4fad.service.intake import Intake
from pv4fad.service.journal import FOLDER, Entry, Journal
from pv4fad.service.snapshot_file import FILE_NAME, Kept, read_snapshot, write_snapshot
from pv4fad.store.sealing import Sealer

SNAPSHOT_AFTER = 50_000
"""Payments, or a twentieth of those known, if these are more."""
_SHARE = 20
_ADD_AT_ONCE = 20_000
_log = logging.getLogger("pv4fad.service")


class KnownPayments:
    """`take` is called by one thread, `decided` and `undecided` by any."""

    def __init__(
        self,
        schema: Schema,
        journal: Journal,
        folder: Path,
        key: bytes,
        *,
        training: Callable[[], pl.DataFrame],
        fingerprint: str,
    ) -> None:
        """`key`: of the journal.  `training` reads the rows of this fingerprint, if need be."""
        self._schema, self._intake, self._journal = schema, Intake(schema), journal
        self._path = folder / FOLDER / FILE_NAME
        self._sealer = Sealer(hmac_digest(key, b"pv4fad known payments", "sha256"))
        self._training, self._fingerprint = training, fingerprint
        self._lock = threading.Lock()
        self._under_way: dict[str, str] = {}
        """Id → text of payments that were taken, and that the journal does not have."""
        self._spoilt = False
        """Whether there are payments among those known that will not be decided."""
        self._n_failures = 0
        self._waiting: Kept | None = None
        self._storing = ThreadPoolExecutor(1, "snapshot")
        self._is_storing = False
        self._known, self._n_since = self._put_together()
        self._snapshot_if_due()

    def __len__(self) -> int:
        """Those of training included."""
        return len(self._known)

    def close(self) -> None:
        """Wait for a snapshot that is being stored."""
        self._storing.shutdown(wait=True)

    def take(self, payments: pl.DataFrame, texts: Sequence[str]) -> NewRows:
        """What is known about new payments, which are under way from now on."""
        ids = payments[self._schema.rows.id].to_list()
        try:
            if self._spoilt:
                _log.warning("some payments could not be decided: forgetting them")
                self._known, self._n_since = self._put_together()
            with self._lock:
                self._under_way.update(zip(ids, texts, strict=True))
            found = self._known.take(payments)
        except DataError:  # nothing has changed
            self.decided(ids)
            raise
        except BaseException:
            self.undecided(ids)  # some of their counts may be there, others not
            raise
        self._n_since += len(ids)
        self._snapshot_if_due()
        return found

    def decided(self, ids: Sequence[str]) -> None:
        """The journal has these."""
        with self._lock:
            for one in ids:
                self._under_way.pop(one, None)
        self._store_if_complete()

    def undecided(self, ids: Sequence[str]) -> None:
        """These will not be decided; somebody may send them again."""
        with self._lock:
            for one in ids:
                self._under_way.pop(one, None)
            self._spoilt, self._waiting = True, None
            self._n_failures += 1

    # All of it from disk.

    def _put_together(self) -> tuple[KnownRows, int]:
        """And how many payments have come since the snapshot."""
        with self._lock:
            self._spoilt = False
            under_way = dict(self._under_way)
        for written in self._journal.find(list(under_way)):
            del under_way[written]
        kept = self._kept()
        if kept is None:
            training = self._training()
            known, n_blocks = KnownRows.of(self._schema, training), 0
            there: Container[str] = set(training[self._schema.rows.id].to_list())
            n_before = -SNAPSHOT_AFTER  # one is due
        else:
            known, n_blocks = KnownRows.of_snapshot(self._schema, kept.snapshot), kept.n_blocks
            there, n_before = kept.also, len(known)
        if under_way:
            known.add(self._intake.rows_of(self._intake.names, list(under_way.values())))
        for entries in _batches(self._journal.blocks(n_blocks)):
            names = entries[0].names
            texts = [
                one.text
                for one in entries
                if one.payment_id not in there and one.payment_id not in under_way
            ]
            if texts:
                known.add(self._intake.rows_of(names, texts))
        return known, len(known) - n_before

    def _kept(self) -> Kept | None:
        """The snapshot, if it is one of these training rows and this journal."""
        try:
            kept = read_snapshot(self._path, self._sealer)
        except StoreError as error:
            _log.warning("%s: reading training rows and journal instead", error)
            return None
        if kept is None:
            return None
        expected = (self._schema.digest, self._fingerprint, self._journal.id)
        found = (kept.snapshot.schema_digest, kept.snapshot.training, kept.journal)
        return kept if found == expected and kept.n_blocks <= self._journal.n_blocks else None

    # Snapshots.

    def _snapshot_if_due(self) -> None:
        if self._n_since < max(SNAPSHOT_AFTER, len(self._known) // _SHARE):
            return
        with self._lock:
            if self._is_storing or self._spoilt or self._waiting is not None:
                return
            # In this order: whatever is written from now on is under way, or comes after it.
            n_blocks, also = self._journal.n_blocks, frozenset(self._under_way)
            n_failures = self._n_failures
        kept = Kept(self._known.snapshot(), self._journal.id, n_blocks, also)
        with self._lock:
            self._waiting = kept if n_failures == self._n_failures else None
        self._n_since = 0
        self._store_if_complete()

    def _store_if_complete(self) -> None:
        with self._lock:
            kept = self._waiting
            if kept is None or not kept.also.isdisjoint(self._under_way):
                return
            self._waiting, self._is_storing = None, True
        self._storing.submit(self._store, kept)

    def _store(self, kept: Kept) -> None:
        try:
            write_snapshot(self._path, self._sealer, kept)
        except OSError as error:
            _log.warning("what is known of earlier payments was not stored: %s", error.strerror)
        finally:
            self._is_storing = False


def _batches(blocks: Iterator[list[Entry]]) -> Iterator[list[Entry]]:
    """Entries of the same columns, many at once."""
    together: list[Entry] = []
    for block in blocks:
        if together and (len(together) >= _ADD_AT_ONCE or together[0].names != block[0].names):
            yield together
            together = []
        together += block
    if together:
        yield together
