"""What runs on a small file system that becomes full: `python -m tests.kit.full_disk FOLDER`.

Whatever is refused there leaves everything as it was, and works once there is space again.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from tests.kit.hub_world import HubWorld, Scribe
from tests.kit.waiting import comes_true

from pv4fad.audit.live_marks import MARKS_FILE, MarkLog
from pv4fad.deployment.backup import write_backup
from pv4fad.deployment.live_chain import MARK_EVERY, LiveChain
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.restore import restore_backup
from pv4fad.deployment.status import read_status
from pv4fad.errors import DataError, StoreError
from pv4fad.files import write_whole
from pv4fad.protocol.live.budget import BLOCK, TickBudget
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
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


def hub_is_full(folder: Path) -> None:
    def n_refused() -> int:
        text = world.hub_figures.text().decode()
        return int(float(text.split('pv4fad_errors_total{kind="StoreError"} ')[1].split()[0]))

    world, may_go_on = HubWorld(folder / "parties", ["bank01"]), threading.Event()
    status = folder / "parties" / AGGREGATOR
    network = Scribe(PAYMENT_NETWORK, {"bank01": [np.arange(3, dtype=np.uint32)]})
    bank = Scribe("bank01", before_handling=may_go_on.wait)
    with world.hub(), world.stations(network, bank):
        world.start("train")
        with full(folder):
            assert comes_true(lambda: n_refused() >= 2, 60)  # it has tried again
            may_go_on.set()
            assert world.finished().error == ""
            with pytest.raises(StoreError, match="No space left"):
                world.start("check")
            assert read_status(status).state == "running"
        assert comes_true(lambda: read_status(status).state == "finished", 60)
        world.start("check")
        assert world.finished().error == ""


def live_files_are_full(folder: Path) -> None:
    own = HubWorld(folder / "parties", ["bank01"]).correspondence("bank01")
    log, place = MarkLog.of_folder(folder), folder / MARKS_FILE
    chain = LiveChain(own, "bank01", bytes(16), log)
    ticks = TickBudget(folder / "live" / "ticks.json", 2 * BLOCK)
    n_messages = itertools.count(MARK_EVERY, MARK_EVERY)
    for _ in range(BLOCK):
        assert ticks.spend()
    with full(folder):
        with pytest.raises(StoreError, match="No space left"):
            until_refused(lambda: chain.stamped(next(n_messages), b""))
        with pytest.raises(StoreError, match="No space left"):
            ticks.spend()
        n_kept = len(MarkLog.read(place))
    chain.stamped(next(n_messages), b"")
    assert len(MarkLog.read(place)) == n_kept + 1
    assert ticks.spend()
    assert ticks.left == BLOCK - 1


if __name__ == "__main__":
    sealing.usual_cost = insecure_fast_scrypt_for_tests
    for check in (
        store_is_full,
        journal_is_full,
        file_is_full,
        backup_is_full,
        live_files_are_full,
        hub_is_full,
    ):
        place = Path(sys.argv[1]) / "disk"
        place.mkdir()
        check(place)
        shutil.rmtree(place)
    sys.stdout.write("all as it should be\n")
