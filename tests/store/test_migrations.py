"""A store of every earlier format opens, whole, and is of the present format from then on."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from pv4fad.errors import StoreError
from pv4fad.store import migrations
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import FORMAT_VERSION, info_of, party_of
from pv4fad.store.migrations import MIGRATIONS
from pv4fad.store.sealing import Passphrase

FORMATS = Path(__file__).parent / "formats"
PASSPHRASE = Passphrase("correct horse battery")
RECORDS = {
    "state": b"a secret of format 5",
    "permanent/ledger/000000000": b"spent",
    "large": bytes(range(100)),
}


def written(folder: Path, version: int) -> Path:
    """The store that the last program of this format wrote."""
    folder.mkdir()
    with raw(folder) as connection:
        connection.executescript((FORMATS / f"{version}.sql").read_text())
    return folder


def raw(folder: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(folder / "store.db"))


def rows(folder: Path) -> list[tuple[object, ...]]:
    with raw(folder) as connection:
        return connection.execute("SELECT * FROM records ORDER BY name, chunk").fetchall()


def version_of(folder: Path) -> int:
    with raw(folder) as connection:
        ((version,),) = connection.execute("PRAGMA user_version")
    return version


def test_there_is_a_step_and_a_file_for_every_format():
    assert sorted(MIGRATIONS) == list(range(5, FORMAT_VERSION))
    assert {path.name for path in FORMATS.iterdir()} == {f"{one}.sql" for one in MIGRATIONS}


@pytest.mark.parametrize("version", MIGRATIONS)
def test_a_store_of_an_earlier_format_opens_and_its_sealed_bytes_stay(tmp_path, version):
    folder = written(tmp_path / "bank-a", version)
    before = rows(folder)
    for _ in range(2):
        with DiskStore.open(folder, Passphrase(PASSPHRASE.text)) as store:
            assert {name: store.get(name) for name in RECORDS} == RECORDS
            assert store.reply_to("run-1/x", bytes(32)) == [b"reply"]
    assert rows(folder) == before
    assert version_of(folder) == FORMAT_VERSION
    with pytest.raises(StoreError, match="wrong passphrase"):
        DiskStore.open(folder, Passphrase("another passphrase"))


@pytest.mark.parametrize("version", MIGRATIONS)
def test_a_migrated_store_has_the_tables_of_a_new_one(tmp_path, version):
    folder = written(tmp_path / "bank-a", version)
    DiskStore.open(folder, PASSPHRASE).close()
    DiskStore.create(tmp_path / "new", "bank-a", PASSPHRASE).close()
    with raw(folder) as old, raw(tmp_path / "new") as new:
        tables = [set(one.execute("SELECT name, sql FROM sqlite_master")) for one in (old, new)]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("version", MIGRATIONS)
def test_a_migration_that_fails_halfway_leaves_the_old_format(tmp_path, monkeypatch, version):
    folder = written(tmp_path / "bank-a", version)
    before = (folder / "store.db").read_bytes()
    last, step = FORMAT_VERSION - 1, MIGRATIONS[FORMAT_VERSION - 1]

    def failing(connection):
        step(connection)
        raise ValueError

    monkeypatch.setitem(migrations.MIGRATIONS, last, failing)
    with pytest.raises(StoreError, match="is damaged"):
        DiskStore.open(folder, PASSPHRASE)
    assert (folder / "store.db").read_bytes() == before
    monkeypatch.setitem(migrations.MIGRATIONS, last, step)
    with DiskStore.open(folder, PASSPHRASE) as store:
        assert store.get("state") == RECORDS["state"]


@pytest.mark.parametrize("version", MIGRATIONS)
def test_whoever_only_asks_what_locks_a_store_leaves_it_as_it_is(tmp_path, version, command_line):
    folder = written(tmp_path / "bank-a", version)
    before = (folder / "store.db").read_bytes()
    code, printed, error = command_line("keys", "status", folder)
    assert code == 0, error
    assert "root key: passphrase" in printed
    assert f"store format: {version}" in printed
    assert party_of(folder) == "bank-a"
    assert [path.name for path in folder.iterdir()] == ["store.db"]
    assert (folder / "store.db").read_bytes() == before


def test_a_shared_store_is_not_migrated_under_its_owner(tmp_path):
    folder = written(tmp_path / "bank-a", 5)
    with DiskStore.open_shared(folder, PASSPHRASE, owner=True), raw(folder) as connection:
        connection.execute("PRAGMA user_version = 5")  # as if the owner were an older program
        with pytest.raises(StoreError, match="is in use"):
            DiskStore.open_shared(folder, PASSPHRASE, owner=False)


def test_the_lock_of_format_5_does_not_linger_in_the_file(tmp_path):
    folder = written(tmp_path / "bank-a", 5)
    with raw(folder) as connection:
        ((old,),) = connection.execute("SELECT locked_key FROM info")
    DiskStore.open(folder, PASSPHRASE).close()
    assert info_of(folder).lock.locked_key == old
    assert info_of(folder).lock.since == ""
    with DiskStore.open(folder, PASSPHRASE) as store:
        store.rotate(Passphrase("another long passphrase"))
    assert old not in (folder / "store.db").read_bytes()
    assert info_of(folder).lock.since.startswith("20")
    with pytest.raises(StoreError, match="wrong passphrase"):
        DiskStore.open(folder, PASSPHRASE)


@pytest.mark.parametrize("change", ["SET salt = 'text'", "SET log2_n = 60", "SET party = 'bank-b'"])
def test_a_damaged_store_of_format_5_stays_one(tmp_path, change):
    folder = written(tmp_path / "bank-a", 5)
    with raw(folder) as connection, connection:
        connection.execute(f"UPDATE info {change}")
    with pytest.raises(StoreError):
        DiskStore.open(folder, PASSPHRASE)


@pytest.mark.parametrize("version", MIGRATIONS)
def test_a_copy_of_the_earlier_format_stays_until_the_root_key_changes(tmp_path, version):
    folder = written(tmp_path / "bank-a", version)
    before = rows(folder)
    copy = folder / f"store.db.format-{version}"
    copy.write_bytes(b"of an attempt that was interrupted")
    with DiskStore.open(folder, PASSPHRASE) as store:
        assert copy.stat().st_mode & 0o777 == 0o600
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "store.db").write_bytes(copy.read_bytes())
        assert (version_of(tmp_path / "old"), rows(tmp_path / "old")) == (version, before)
        store.rotate(Passphrase("another long passphrase"))
    assert not copy.exists()


@pytest.mark.parametrize("version", [min(MIGRATIONS) - 1, FORMAT_VERSION + 1])
def test_a_store_that_no_step_reaches_is_refused_and_left_as_it_is(tmp_path, version):
    DiskStore.create(tmp_path / "bank-a", "bank-a", PASSPHRASE).close()
    with raw(tmp_path / "bank-a") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = (tmp_path / "bank-a" / "store.db").read_bytes()
    with pytest.raises(StoreError, match=f"has format {version}, this program uses"):
        DiskStore.open(tmp_path / "bank-a", PASSPHRASE)
    assert (tmp_path / "bank-a" / "store.db").read_bytes() == before
    assert not list((tmp_path / "bank-a").glob("store.db.format-*"))
