"""What runs on a small file system that becomes full: `python -m tests.kit.full_disk FOLDER`.

Whatever is refused there leaves everything as it was, and works once there is space again.
"""

from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pv4fad.deployment.backup import write_backup
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.restore import restore_backup
from pv4fad.errors import DataError, StoreError
from pv4fad.files import write_whole
from pv4fad.service.journal import Entry, Journal
from pv4fad.store import sealing
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase, insecure_fast_scrypt_for_tests

PASSPHRASE = Passphrase("correct horse battery")


@contextmanager
def full(folder: Path, spare_bytes: int = 0) -> Iterator[None]:
    """Nothing is left but this."""
    filler, spare = folder / "filler", folder / "spare"
    spare.write_bytes(bytes(spare_bytes))
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    spare.unlink()
    yield
    filler.unlink()


def until_refused(write: Callable[[], object]) -> None:
    for _ in range(100):
        write()


def store_is_full(folder: Path) -> None:
    with DiskStore.create(folder / "party", "aggregator", PASSPHRASE) as store:
        with store.transaction() as tx:
            tx.put("state", b"before")

        def overwrite_and_grow() -> None:
            with store.transaction() as tx:
                tx.put("state", b"after")
                tx.put("large", bytes(400_000))

        for spare_bytes in (0, 40_000):
            with full(folder, spare_bytes):
                with pytest.raises(StoreError, match="disk is full"):
                    overwrite_and_grow()
                assert store.get("state") == b"before"
        with store.transaction() as tx:
            tx.put("large", bytes(400_000))
    with DiskStore.open(folder / "party", PASSPHRASE) as store:
        assert store.get("state") == b"before"
        assert store.get("large") == bytes(400_000)


def journal_is_full(folder: Path) -> None:
    def entries(first: int) -> list[Entry]:
        return [
            Entry(f"id-{n}", "digest", f'{{"id":{n}}}', ("Text",), f'["{hash(n)}"]')
            for n in range(first, first + 500)
        ]

    (folder / "live").mkdir()
    with Journal.open(folder, bytes(32)) as journal:
        journal.write(entries(0))
        with full(folder):
            for write in (
                lambda: journal.write(entries(journal.n_decisions)),
                lambda: journal.ask({"q": 1}).result(),
            ):
                with pytest.raises(StoreError, match="disk is full"):
                    until_refused(write)
            n_written = journal.n_decisions
            assert len(journal.find(["id-7", "id-499"])) == 2
        journal.write(entries(n_written))
    with Journal.open(folder, bytes(32)) as journal:
        assert journal.n_decisions == n_written + 500


def file_is_full(folder: Path) -> None:
    write_whole(folder / "predictions.csv", "before")
    with full(folder):
        with pytest.raises(OSError, match="No space left") as refused:
            write_whole(folder / "predictions.csv", "after" * 100_000)
        assert refused.value.errno == errno.ENOSPC
        assert sorted(path.name for path in folder.iterdir()) == ["filler", "predictions.csv"]
        assert (folder / "predictions.csv").read_text() == "before"


def backup_is_full(folder: Path) -> None:
    new = NewParty("aggregator", "aggregator", "127.0.0.1:8000")
    create_party(folder / "party", new, lambda: PASSPHRASE)
    party, out = PartyFolder(folder / "party"), folder / "backup"
    write_backup(party, PASSPHRASE, out)  # its key is in the store
    out.unlink()
    for spare_bytes in (0, 60_000, 250_000):
        with full(folder, spare_bytes):
            with pytest.raises((StoreError, OSError), match=r"disk is full|No space left"):
                write_backup(party, PASSPHRASE, out)
            assert sorted(path.name for path in folder.iterdir()) == ["filler", "party"]
    write_backup(party, PASSPHRASE, out)
    with full(folder, 60_000):
        with pytest.raises(DataError, match="No space left"):
            restore_backup(out, folder / "restored", PASSPHRASE)
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["backup", "filler", "party"]


if __name__ == "__main__":
    sealing.usual_cost = insecure_fast_scrypt_for_tests
    for check in (store_is_full, journal_is_full, file_is_full, backup_is_full):
        place = Path(sys.argv[1]) / "disk"
        place.mkdir()
        check(place)
        shutil.rmtree(place)
    sys.stdout.write("all as it should be\n")
