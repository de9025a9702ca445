"""A store on disk: sealed, locked, versioned, and whole after any crash."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pv4fad.errors import ParameterError, StoreError
from pv4fad.store import disk as disk_store_module
from pv4fad.store import sealing
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import party_of
from pv4fad.store.sealing import Passphrase, ScryptCost

PASSPHRASE = Passphrase("correct horse battery")
SECRET = b"a secret that nobody should read"
NOBODY = 65534
PAGE_BYTES = 4096  # of SQLite


def create(folder, **records):
    """A store with these records, closed."""
    with DiskStore.create(folder, "bank-a", PASSPHRASE) as store:
        for key, value in records.items():
            put(store, key, value)


def put(store, key, value):
    with store.transaction() as tx:
        tx.put(key, value)


def contents(folder):
    with DiskStore.open(folder, PASSPHRASE) as store:
        return {key: store.get(key) for key in store.keys("")}


@contextlib.contextmanager
def raw(folder):
    """The closed file as someone without the key can read and change it."""
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        yield connection


def test_a_transaction_that_only_reads_writes_nothing(folder):
    create(folder, state=SECRET)
    before = (folder / "store.db").read_bytes()
    with DiskStore.open(folder, PASSPHRASE) as store:
        for _ in range(3):
            with store.transaction() as tx:
                assert tx.get("state") == SECRET
        assert (folder / "store.db").read_bytes() == before
        put(store, "state", b"another")
    assert (folder / "store.db").read_bytes() != before
    assert contents(folder) == {"state": b"another"}


def test_records_outlive_the_process_that_wrote_them(folder):
    create(folder, state=SECRET)
    with DiskStore.open(folder, PASSPHRASE) as store, store.transaction() as tx:
        tx.record_reply("run-1/x", bytes(32), [b"reply"])
    with DiskStore.open(folder, PASSPHRASE) as store:
        assert store.get("state") == SECRET
        assert store.reply_to("run-1/x", bytes(32)) == [b"reply"]
    assert party_of(folder) == "bank-a"


def test_values_are_not_in_the_file_in_the_clear(folder):
    create(folder, state=SECRET)
    written = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"state" in written  # names are public
    assert SECRET[:8] not in written
    assert PASSPHRASE.text.encode() not in written


def test_the_same_value_is_sealed_differently_every_time(folder):
    create(folder)
    sealed = []
    for key in ("a", "a", "b"):
        with DiskStore.open(folder, PASSPHRASE) as store:
            put(store, key, SECRET)
        with raw(folder) as connection:
            query = "SELECT sealed FROM records WHERE name = ?"
            sealed.append(connection.execute(query, (key,)).fetchone()[0])
    assert len({one[:12] for one in sealed}) == 3  # nonces
    assert len({one[12:] for one in sealed}) == 3


def test_only_the_owner_can_read_the_folder(tmp_path):
    folder = tmp_path / "run" / "bank-a"
    create(folder, state=SECRET)
    with DiskStore.open(folder, PASSPHRASE) as store, store.transaction() as tx:
        tx.put("a", b"")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {"store.db": 0o600, "store.db-journal": 0o600}


def test_a_store_is_never_made_over_another_one(folder):
    create(folder, state=SECRET)
    with pytest.raises(StoreError, match="already holds a store"):
        create(folder)
    assert contents(folder) == {"state": SECRET}


def test_two_processes_cannot_have_the_same_store(folder):
    create(folder)
    attempt = "import sys; from pathlib import Path; from pv4fad.store.file import *\n"
    attempt += "try: party_of(Path(sys.argv[1]))\nexcept Exception as error: print(error)"
    command = [sys.executable, "-c", attempt, str(folder)]
    with DiskStore.open(folder, PASSPHRASE) as store:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "is in use by another process" in run.stdout
        with pytest.raises(StoreError, match="is in use"):
            DiskStore.open(folder, PASSPHRASE)
        with pytest.raises(StoreError, match="is in use"):
            create(folder)
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "is in use" in run.stdout  # those attempts have not released the lock
        put(store, "still", b"mine")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    assert contents(folder) == {"still": b"mine"}


def test_a_wrong_passphrase_opens_nothing_and_the_right_one_still_does(folder):
    create(folder, state=SECRET)
    with pytest.raises(StoreError, match=r"store of bank-a in .*: wrong passphrase"):
        DiskStore.open(folder, Passphrase("correct horse batterz"))
    assert contents(folder) == {"state": SECRET}


def test_the_root_key_can_change_and_the_old_one_no_longer_opens(folder):
    create(folder, state=SECRET)
    with raw(folder) as connection:
        ((old_key,),) = connection.execute("SELECT locked_key FROM info")
    new = Passphrase("another long passphrase")
    with DiskStore.open(folder, PASSPHRASE) as store:
        store.rotate(new)
        put(store, "more", b"x")
        with pytest.raises(StoreError, match="at least 12"):
            store.rotate(Passphrase("short"))
    with pytest.raises(StoreError, match="wrong passphrase"):
        DiskStore.open(folder, PASSPHRASE)
    with DiskStore.open(folder, new) as store:
        assert store.get("state") == SECRET
        assert store.get("more") == b"x"
    # The key under the old passphrase does not linger in a free part of the file.
    assert old_key not in (folder / "store.db").read_bytes()


def test_short_passphrases_and_cheap_costs_are_refused(folder):
    with pytest.raises(StoreError, match="at least 12"):
        DiskStore.create(folder, "bank-a", Passphrase("short"))
    with pytest.raises(ParameterError, match="does not protect"):
        ScryptCost(log2_n=14)
    with pytest.raises(ParameterError, match="beyond"):
        ScryptCost(log2_n=40)
    assert not folder.exists()
    assert ScryptCost() == ScryptCost(log2_n=17, r=8, p=1, insecure_fast=False)


def test_the_default_cost_is_stored_and_used(folder, monkeypatch):
    monkeypatch.setattr(sealing, "usual_cost", ScryptCost)
    DiskStore.create(folder, "bank-a", PASSPHRASE).close()
    with raw(folder) as connection:
        ((about,),) = connection.execute("SELECT key_about FROM info")
    used = json.loads(about)
    assert (used["log2_n"], used["r"], used["p"], used["insecure_fast"]) == (17, 8, 1, 0)
    assert contents(folder) == {}


def test_large_values_are_stored_in_chunks(folder, monkeypatch):
    monkeypatch.setattr(disk_store_module, "CHUNK_BYTES", 1000)
    sizes = (0, 1, 999, 1000, 1001, 2000, 12_345)
    values = {f"v{size}": np.random.default_rng(size).bytes(size) for size in sizes}
    create(folder, **values)
    with DiskStore.open(folder, PASSPHRASE) as store:
        put(store, "v12345", b"shorter now")
    assert contents(folder) == values | {"v12345": b"shorter now"}
    with raw(folder) as connection:
        assert connection.execute("SELECT max(length(sealed)) FROM records").fetchone() == (1028,)


def test_a_value_of_many_megabytes_needs_little_more_memory_than_itself(folder):
    # Run on its own, because a process remembers its highest memory use only.
    create(folder)
    script = """
import resource, sys
from pathlib import Path
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store = DiskStore.open(Path(sys.argv[1]), Passphrase("correct horse battery"))
value = bytes(64 * 2**20)
before = peak()
with store.transaction() as tx:
    tx.put("large", value)
del value
assert len(store.get("large")) == 64 * 2**20
print(peak() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(run.stdout) * unit < 48 * 2**20


@pytest.mark.parametrize(("version", "text"), [(0, "format 0"), (1, "format 1"), (7, "format 7")])
def test_a_store_of_another_version_is_refused_with_both_versions(folder, version, text):
    create(folder)
    with raw(folder) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=f"{text}, this program uses 6 and reads 5 and later"):
        DiskStore.open(folder, PASSPHRASE)


def test_what_is_not_a_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no store"):
        DiskStore.open(tmp_path, PASSPHRASE)
    (tmp_path / "store.db").write_bytes(b"")
    with pytest.raises(StoreError, match="not a complete store"):
        DiskStore.open(tmp_path, PASSPHRASE)
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 1000)
    with pytest.raises(StoreError, match="is damaged"):
        DiskStore.open(tmp_path, PASSPHRASE)


def test_a_creation_that_was_interrupted_can_be_repeated(folder):
    folder.mkdir()
    (folder / "store.db").touch()
    create(folder, state=SECRET)
    assert contents(folder) == {"state": SECRET}


@pytest.mark.parametrize("where", ["anywhere", "in the tables' roots"])
def test_flipped_bits_are_noticed_and_never_change_what_is_read(folder, where):
    records = {f"record-{i}": bytes([i]) * 20_000 for i in range(8)}
    create(folder, **records)
    whole = (folder / "store.db").read_bytes()
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))  # the rest is room to grow
    positions = used if where == "anywhere" else used[used < 4 * PAGE_BYTES]
    rng = np.random.default_rng(5)
    n_noticed = 0
    for trial in range(100):
        damaged = bytearray(whole)
        damaged[rng.choice(positions)] ^= 1 << int(rng.integers(8))
        (folder / "store.db").write_bytes(damaged)
        try:
            assert contents(folder) == records, f"trial {trial}"
        except StoreError:
            n_noticed += 1
    # Some bits carry nothing, in the roots about a quarter of them.
    assert n_noticed > 60


def test_a_truncated_file_is_refused(folder):
    create(folder, state=bytes(100_000))
    whole = (folder / "store.db").read_bytes()
    (folder / "store.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError):
        contents(folder)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM records WHERE name = 'ledger'",
        "UPDATE records SET name = 'ledger2' WHERE name = 'ledger'",
        "UPDATE records SET sealed = (SELECT sealed FROM records WHERE name = 'other')",
        "UPDATE records SET (sealed, write_id) = (SELECT sealed, write_id FROM records"
        " WHERE name = 'other') WHERE name = 'ledger'",
        "UPDATE records SET n_chunks = 1, chunk = 7 WHERE name = 'ledger'",
        "UPDATE info SET party = 'bank-b'",
        "UPDATE info SET store_id = 'other'",
        "UPDATE info SET manifest = x'00'",
        "UPDATE info SET key_kind = '256-bit key'",
        "UPDATE info SET key_about = 'text'",
        "UPDATE info SET key_about = '{}'",
        "UPDATE info SET key_about = replace(key_about, '\"log2_n\": 2', '\"log2_n\": 60')",
        "UPDATE info SET key_about = replace(key_about, '{', '{ ')",
        "UPDATE info SET key_since = ''",
        "UPDATE info SET key_since = '2027-01-01T00:00:00+00:00'",
        "DELETE FROM info",
        "DROP TABLE records",
    ],
)
def test_records_cannot_be_swapped_renamed_or_removed_behind_our_back(folder, change):
    create(folder, ledger=b"spent", other=b"other")
    with raw(folder) as connection:
        connection.execute(change)
    with pytest.raises(StoreError):
        contents(folder)


def test_a_chunk_that_is_missing_is_noticed(folder, monkeypatch):
    monkeypatch.setattr(disk_store_module, "CHUNK_BYTES", 1000)
    for chunk in (1, 2):
        shutil.rmtree(folder, ignore_errors=True)
        create(folder, value=bytes(2500))
        with raw(folder) as connection:
            connection.execute("DELETE FROM records WHERE chunk = ?", (chunk,))
        with pytest.raises(StoreError, match=r"incomplete|damaged"):
            contents(folder)


@pytest.mark.parametrize(
    "changes",
    [
        [
            "UPDATE records SET chunk = 7 WHERE chunk = 0",
            "UPDATE records SET chunk = 0 WHERE chunk = 1",
            "UPDATE records SET chunk = 1 WHERE chunk = 7",
        ],
        ["DELETE FROM records WHERE chunk = 2", "UPDATE records SET n_chunks = 2"],
    ],
)
def test_chunks_can_be_neither_reordered_nor_cut_off(folder, monkeypatch, changes):
    monkeypatch.setattr(disk_store_module, "CHUNK_BYTES", 1000)
    create(folder, value=bytes(1000) + bytes([1]) * 1500)
    with raw(folder) as connection:
        for change in changes:
            connection.execute(change)
    with pytest.raises(StoreError, match="damaged"):
        contents(folder)


def test_an_older_value_under_the_present_write_id_is_noticed(folder):
    create(folder, ledger=b"spent 1")
    with raw(folder) as connection:
        ((old,),) = connection.execute("SELECT sealed FROM records")
    with DiskStore.open(folder, PASSPHRASE) as store:
        put(store, "ledger", b"spent 2")
    with raw(folder) as connection:
        connection.execute("UPDATE records SET sealed = ?", (old,))
    with pytest.raises(StoreError, match="record ledger: sealed bytes are damaged"):
        contents(folder)


def test_an_older_version_of_one_record_is_noticed(folder):
    create(folder, ledger=b"spent 1")
    with raw(folder) as connection:
        old = connection.execute("SELECT * FROM records").fetchone()
    with DiskStore.open(folder, PASSPHRASE) as store:
        put(store, "ledger", b"spent 2")
    with raw(folder) as connection:
        connection.execute("DELETE FROM records")
        connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", old)
    with pytest.raises(StoreError, match="removed, added or put back"):
        contents(folder)


def test_a_full_disk_is_an_error_and_loses_nothing(folder):
    create(folder, state=SECRET)
    usual, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def overwrite_and_grow(store):
        with store.transaction() as tx:
            tx.put("state", b"new")
            tx.put("large", bytes(10**7))

    with DiskStore.open(folder, PASSPHRASE) as store:
        # Files that may not grow beyond 200 kB: what a full disk looks like to SQLite.
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            with pytest.raises(StoreError, match=r"disk is full|cannot be read or written"):
                overwrite_and_grow(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (usual, hard))
        assert store.get("state") == SECRET
        overwrite_and_grow(store)
    assert contents(folder) == {"state": b"new", "large": bytes(10**7)}


@contextlib.contextmanager
def without_privileges():
    """Root may write anywhere; become somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_an_error():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "bank-a"
        create(folder, state=SECRET)
        folder.chmod(0o555)
        (folder / "store.db").chmod(0o444)
        with without_privileges():
            with pytest.raises(StoreError, match="cannot be written: no permission"):
                DiskStore.open(folder, PASSPHRASE)
            with pytest.raises(StoreError, match="cannot make a store in"):
                create(folder / "inner")
        folder.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make a store in"):
        create(tmp_path / "file" / "bank-a")


def test_a_closed_store_says_so(folder):
    create(folder)
    store = DiskStore.open(folder, PASSPHRASE)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get("a")


WRITER = """
import sys
from pathlib import Path
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase

with DiskStore.open(Path(sys.argv[1]), Passphrase("correct horse battery")) as store:
    number = int(store.get("number") or b"0")
    while True:
        number += 1
        text = b"%d" % number
        with store.transaction() as tx:
            tx.put("number", text)
            tx.put("permanent/%09d" % number, text)
            tx.put("large", text * (200_000 // len(text)))
            tx.record_reply(f"run/{number}", bytes(32), [text])
        print(number, flush=True)
"""


def test_a_store_is_whole_after_being_killed_at_any_moment(folder):
    create(folder)
    rng = np.random.default_rng(1)
    n_unfinished = 0
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, folder], stdout=subprocess.PIPE, text=True
        )
        told = [writer.stdout.readline() for _ in range(rng.integers(1, 5))]
        time.sleep(rng.uniform(0, 0.02))
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.readlines()
        writer.stdout.close()
        writer.wait()
        n_unfinished += (folder / "store.db-journal").stat().st_size > 0
        last_told = int([line for line in told if line.endswith("\n")][-1])

        with DiskStore.open(folder, PASSPHRASE) as store:
            number = int(store.get("number"))
            # What was reported as done is there; at most the one in flight more.
            assert number in (last_told, last_told + 1)
            assert store.get("large").startswith(b"%d" % number * 2)
            expected = [f"permanent/{i:09d}" for i in range(1, number + 1)]
            assert store.keys("permanent/") == expected
            assert store.reply_to(f"run/{number}", bytes(32)) == [b"%d" % number]
            assert store.reply_to(f"run/{number + 1}", bytes(32)) is None
    assert n_unfinished > 0  # some of the kills hit the middle of a transaction


# Shared.


def shared(folder, *, owner: bool) -> DiskStore:
    return DiskStore.open_shared(folder, PASSPHRASE, owner=owner)


def test_owner_and_guests_see_what_each_of_them_writes(folder):
    create(folder, state=SECRET)
    with (
        shared(folder, owner=True) as owner,
        shared(folder, owner=False) as guest,
        shared(folder, owner=False) as other,
    ):
        for number, store in enumerate([guest, owner, owner, other, guest, owner]):
            put(store, "latest", b"%d" % number)
            put(store, f"of {number}", bytes(10))
            for reader in (owner, guest, other):
                assert reader.get("latest") == b"%d" % number
                assert reader.keys(f"of {number}") == [f"of {number}"]
        with guest.transaction() as tx:
            tx.delete("state")
        assert owner.get("state") is None
        with contextlib.suppress(RuntimeError), owner.transaction() as tx:
            tx.put("latest", b"never")
            raise RuntimeError
        assert [store.get("latest") for store in (owner, guest, other)] == [b"5"] * 3
    assert len(contents(folder)) == 7


def test_a_shared_store_has_one_owner_and_nobody_else_for_himself(folder, monkeypatch):
    monkeypatch.setattr("pv4fad.store.file._PATIENCE_S", 0.1)
    create(folder)
    with shared(folder, owner=True) as store:
        for attempt in (
            lambda: shared(folder, owner=True),
            lambda: DiskStore.open(folder, PASSPHRASE),
        ):
            with pytest.raises(StoreError, match="is in use"):
                attempt()
        put(store, "still", b"mine")
    with DiskStore.open(folder, PASSPHRASE), pytest.raises(StoreError, match="is in use"):
        shared(folder, owner=True)
    assert contents(folder) == {"still": b"mine"}


def test_whoever_works_waits_until_a_large_store_is_copied(folder, monkeypatch):
    """Longer than a command waits for a store that somebody has for himself alone."""
    monkeypatch.setattr("pv4fad.store.file._PATIENCE_S", 0.01)
    create(folder)
    with (
        shared(folder, owner=True) as owner,
        contextlib.closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as copying,
        ThreadPoolExecutor() as pool,
    ):
        copying.execute("BEGIN")
        copying.execute("SELECT count(*) FROM records").fetchall()
        working = pool.submit(put, owner, "state", SECRET)
        with pytest.raises(TimeoutError):
            working.result(0.5)
        copying.execute("ROLLBACK")
        working.result(60)
        assert owner.get("state") == SECRET


def test_transactions_of_a_shared_store_wait_for_each_other(folder):
    create(folder)
    order: list[str] = []
    with shared(folder, owner=True) as owner, shared(folder, owner=False) as guest:

        def write() -> None:
            with guest.transaction() as tx:
                order.append(str(tx.get("by")))
                tx.put("by", b"guest")

        with owner.transaction() as tx:
            thread = threading.Thread(target=write)
            thread.start()
            time.sleep(0.3)
            tx.put("by", b"owner")
            order.append("owner")
        thread.join(30)
        assert order == ["owner", "b'owner'"]
        assert owner.get("by") == b"guest"


def test_a_guest_that_is_killed_in_a_transaction_leaves_nothing_behind(folder):
    create(folder, state=SECRET)
    program = "import os, sys; from pathlib import Path; from pv4fad.store.disk import DiskStore\n"
    program += "from pv4fad.store.sealing import Passphrase\n"
    program += "text = 'correct horse battery'\n"
    program += (
        "store = DiskStore.open_shared(Path(sys.argv[1]), Passphrase(text), owner=False)\n"
        "with store.transaction() as tx:\n"
        "    tx.put('half', bytes(10**7)); tx.delete('state'); os.kill(os.getpid(), 9)\n"
    )
    with shared(folder, owner=True) as owner:
        put(owner, "before", b"1")
        run = subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
        assert run.returncode == -9
        assert owner.get("state") == SECRET
        put(owner, "after", b"2")
    assert contents(folder) == {"state": SECRET, "before": b"1", "after": b"2"}
