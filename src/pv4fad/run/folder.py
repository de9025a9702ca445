"""The folder of a run: one folder per party, and what is public beside them.

    RUN/run.json            public (`document`), replaced as a whole
    RUN/payment-network/    the store of the payment network: seed, trees, keys, shares
    RUN/aggregator/         the store of the aggregator
    RUN/<bank>/             the store of that bank: keys, shares, ledger

Nothing of one party is in the folder of another; each store is sealed (docs/operate/stores.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pv4fad.errors import StoreError
from pv4fad.files import write_whole
from pv4fad.run.document import RunDocument
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import RootKey
from pv4fad.workers import available_cores

RUN_FILE = "run.json"
_STORES_AT_ONCE = 4  # to open one takes 128 MB for a moment
_UNFINISHED_FILES = ".run.json.*.new"  # of a process that was killed while it wrote


class RunFolder:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> RunDocument | None:
        """What run.json says; None if no run was begun here."""
        try:
            text = (self.path / RUN_FILE).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            raise StoreError(f"{self.path / RUN_FILE} is not text: it is damaged") from None
        return RunDocument.from_json(text, str(self.path / RUN_FILE))

    @property
    def is_unfinished(self) -> bool:
        """Whether a run was begun here and has not come to its end."""
        document = self.read()
        return document is not None and document.state == "unfinished"

    def require_new(self) -> None:
        """Refuse a folder in which a run, or anything else, already is."""
        document = self.read()
        if document is not None and document.state == "finished":
            raise StoreError(
                f"{self.path} holds the finished run {document.run_id}: choose another folder"
            )
        if document is not None:
            raise StoreError(
                f"{self.path} holds the unfinished run {document.run_id}: repeat the command with"
                " --resume to carry on, or choose another folder"
            )
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file: choose a new or empty folder")
        if self.path.is_dir() and set(self.path.iterdir()) - set(self.path.glob(_UNFINISHED_FILES)):
            raise StoreError(f"{self.path} holds other files: choose a new or empty folder")
        place = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not os.access(place, os.W_OK | os.X_OK):
            raise StoreError(f"{self.path} cannot be created: no permission to write in {place}")

    def require_unfinished(self) -> RunDocument:
        """The run to resume."""
        document = self.read()
        if document is None:
            raise StoreError(f"{self.path} holds no run to resume: start it without --resume")
        if document.state == "finished":
            raise StoreError(f"{self.path} holds the finished run {document.run_id}")
        return document

    def require_finished(self) -> RunDocument:
        """A run whose model can be used."""
        document = self.read()
        if document is None:
            raise StoreError(f"{self.path} holds no run ({RUN_FILE} is missing)")
        if document.state != "finished":
            raise StoreError(
                f"the run in {self.path} is not finished: carry on with pv4fad train --resume"
            )
        return document

    def write(self, document: RunDocument) -> None:
        """Replace run.json: a reader sees the old one or the new one."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / RUN_FILE, document.to_json())

    @contextmanager
    def stores(
        self, parties: Iterable[str], root_key: RootKey, *, create: bool = False
    ) -> Iterator[dict[str, DiskStore]]:
        """The stores of these parties, open; `create` makes those that are not there."""
        with ExitStack() as stack:
            # Most of the time may go into a passphrase, without Python's lock.
            with ThreadPoolExecutor(min(available_cores(), _STORES_AT_ONCE)) as threads:
                opening = {
                    party: threads.submit(self._store, party, root_key, create=create)
                    for party in parties
                }
            for future in opening.values():
                if future.exception() is None:
                    stack.enter_context(future.result())
            yield {party: future.result() for party, future in opening.items()}

    def _store(self, party: str, root_key: RootKey, *, create: bool) -> DiskStore:
        folder = self.path / party
        if create and not holds_store(folder):
            return DiskStore.create(folder, party, root_key)
        store = DiskStore.open(folder, root_key)
        if store.party != party:
            store.close()
            raise StoreError(f"{folder} holds the store of {store.party}, not of {party}")
        return store
