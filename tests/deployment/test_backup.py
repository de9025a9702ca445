"""`pv4fad party backup`, `restore` and `catch-up`, `pv4fad audit witness`, as people use them."""

from __future__ import annotations

import errno
import io
import json
import shutil
import sqlite3
import tarfile
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kit.in_threads import transactions_of, write_data
from tests.kit.small_federation import PASSPHRASE, small_tables

from pv4fad.deployment.backup import write_backup
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder
from pv4fad.deployment.restore import restore_backup
from pv4fad.deployment.status import Journal as StatusJournal
from pv4fad.deployment.status import new_status, read_status
from pv4fad.errors import DataError, StoreError
from pv4fad.privacy.ledger import read_ledger, set_limit
from pv4fad.protocol.live.budget import TickBudget
from pv4fad.service.journal import Entry, Journal, journal_key
from pv4fad.store.sealing import Passphrase

SECRET = Passphrase(PASSPHRASE)
S, A, BANK = "payment-network", "aggregator", "bank01"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Three parties with cards exchanged, that have sent nothing."""
    root = tmp_path_factory.mktemp("parties")
    scenario = write_data(root / "data", [BANK], small_tables())
    accounts = scenario / "train" / BANK / "bank_dataset.csv"
    hub = "127.0.0.1:8000"
    create_party(root / A, NewParty(A, A, hub), lambda: SECRET)
    train = transactions_of(scenario, "train")
    create_party(root / S, NewParty(S, S, hub, data=train, epsilon="1"), lambda: SECRET)
    bank = NewParty("bank", BANK, hub, data=accounts, limit=Fraction(3))
    create_party(root / BANK, bank, lambda: SECRET)
    for name in (S, A, BANK):
        for other in (S, A, BANK):
            PartyFolder(root / name).import_card(root / other / "card.json")
    return root


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)

    def run(*arguments, code=0):
        found, out, err = command_line(*arguments)
        assert found == code, out + err
        return " ".join((out + err).split())

    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("store.db", "ticks.json")
    }


def test_a_bank_from_its_backup_to_its_first_step(made, pv4fad, tmp_path):
    backup, restored = tmp_path / "bank.backup", tmp_path / "restored"
    settings = made / BANK / "party.toml"
    # Top-level entries come before the first table of a file.
    settings.write_text(f'metrics-certificate = "keys/m.crt"\n{settings.read_text()}')
    (made / BANK / "live").mkdir(exist_ok=True)
    for name in ("keys/m.crt", "rules.toml", "live/access.json", "live/marks.jsonl"):
        (made / BANK / name).touch(0o600)
    assert "bank01" in pv4fad("party", "backup", made / BANK, "--out", backup)
    assert backup.stat().st_mode & 0o777 == 0o600
    said = pv4fad("party", "restore", backup, restored)
    code = said.split("--code ")[1].split(" ")[0]
    assert "By the cards here these are aggregator, payment-network: federation" in said
    assert files_of(restored) == files_of(made / BANK)
    assert restored.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in restored.rglob("*"))
    assert "was restored from a backup" in pv4fad("party", "run", restored, code=2)
    assert "was restored from a" in pv4fad("party", "check", restored, code=1)
    assert code in pv4fad("party", "catch-up", restored)
    files = []
    for name in (S, A):
        files.append(tmp_path / f"{name}.json")
        options = ("--of", BANK, "--code", code, "--out", files[-1])
        pv4fad("audit", "witness", made / name, *options)
    assert "the file of aggregator is missing" in pv4fad(
        "party", "catch-up", restored, files[0], code=2
    )
    assert "was restored from a backup" in pv4fad("party", "run", restored, code=2)
    said = pv4fad("party", "catch-up", restored, *files)
    assert "nothing was lost" in said
    assert "If the others have another number" in said
    assert "was not restored" in pv4fad("party", "catch-up", restored, *files, code=2)
    assert "format 6, opens" in pv4fad("party", "check", restored)


def test_a_disk_that_is_full_leaves_no_backup_and_names_it(made, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pv4fad.deployment.backup.copy_hashed", full)
    with pytest.raises(StoreError, match=r"the backup .*/file cannot be written: No space left"):
        write_backup(PartyFolder(made / BANK), SECRET, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_what_is_outside_of_the_folder_is_left_out(made, tmp_path):
    shutil.copytree(made / A, tmp_path / A)
    (tmp_path / "schema.toml").write_text("of everybody")
    (tmp_path / "metrics.key").write_text("somewhere else")
    with (tmp_path / A / "party.toml").open("a") as settings:
        settings.write(f'data-schema = "../schema.toml"\nmetrics-key = "{tmp_path}/metrics.key"\n')
    write_backup(PartyFolder(tmp_path / A), SECRET, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "restored", SECRET)
    assert files_of(tmp_path / "restored") == files_of(tmp_path / A)


def test_each_restoration_has_a_code_of_its_own(made, pv4fad, tmp_path):
    """Also that of a backup made while the party waited: files of the time before are too old."""
    write_backup(PartyFolder(made / BANK), SECRET, tmp_path / "first")
    code = restore_backup(tmp_path / "first", tmp_path / "waiting", SECRET)
    write_backup(PartyFolder(tmp_path / "waiting"), SECRET, tmp_path / "second")
    assert restore_backup(tmp_path / "second", tmp_path / "again", SECRET) != code
    for _ in range(2):  # to read it once more makes no other one
        assert code in pv4fad("party", "catch-up", tmp_path / "waiting")


def test_no_live_query_is_answered_on_the_day_of_a_restoration(made, pv4fad, tmp_path):
    """Live queries are in no log, so nobody knows how many there were since the backup."""
    write_backup(PartyFolder(made / BANK), SECRET, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "bank", SECRET)
    assert not TickBudget(tmp_path / "bank" / "live" / "ticks.json", 2**40).spend()
    # A snapshot of the machine, with the count of that time.
    shutil.copytree(made / BANK, tmp_path / "snapshot")
    count = tmp_path / "snapshot" / "live" / "ticks.json"
    assert TickBudget(count, 2**40).spend()
    pv4fad("party", "catch-up", tmp_path / "snapshot")
    assert not TickBudget(count, 2**40).spend()


def test_a_restored_hub_does_not_go_on_with_a_job_of_then(made, pv4fad, tmp_path):
    """It may be over long since, and others have followed."""
    shutil.copytree(made / A, tmp_path / "snapshot")
    StatusJournal(tmp_path / "snapshot", new_status(None, "train"), [S, A, BANK])
    write_backup(PartyFolder(tmp_path / "snapshot"), SECRET, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "restored", SECRET)
    pv4fad("party", "catch-up", tmp_path / "snapshot")
    for name in ("restored", "snapshot"):
        status = read_status(tmp_path / name)
        assert (status.job, status.state) == ("train", "failed")
        assert "the aggregator was restored" in status.error


def test_the_code_is_told_and_who_is_asked_by_which_cards(made, pv4fad, tmp_path):
    """A party that joined after the backup is not asked: the number shows that cards are old."""
    shutil.copytree(made / S, tmp_path / S)
    said = pv4fad("party", "catch-up", tmp_path / S)
    number = (
        pv4fad("party", "join", tmp_path / S, made / A / "card.json")
        .split("federation ")[1]
        .split(":")[0]
    )
    assert f"By the cards here these are aggregator, bank01: federation {number}." in said
    (tmp_path / S / "cards" / "aggregator.json").unlink()
    (tmp_path / S / "cards" / "bank01.json").write_text("damaged")
    assert "--code " in pv4fad("party", "catch-up", tmp_path / S, code=2)


def test_a_backup_shows_nothing_that_was_sealed_or_private_before(made, tmp_path):
    write_backup(PartyFolder(made / BANK), SECRET, tmp_path / "backup")
    content = (tmp_path / "backup").read_bytes()
    for secret in (
        PASSPHRASE.encode(),
        (made / BANK / KEY_FILE).read_bytes(),
        (made / BANK / "party.toml").read_bytes().splitlines()[-1],
    ):
        assert secret
        assert secret not in content


def test_a_backup_of_a_running_party_is_of_one_moment(made, tmp_path):
    """The store is open, and what is not committed is not in the backup."""
    folder = PartyFolder(made / BANK)
    with folder.open_store(SECRET, shared=True) as store:
        with store.transaction() as tx:
            set_limit(tx, Fraction(4), datetime(2026, 1, 5, tzinfo=UTC))
        write_backup(folder, SECRET, tmp_path / "backup")
        with store.transaction() as tx:
            set_limit(tx, Fraction(5), datetime(2026, 1, 6, tzinfo=UTC))
    restore_backup(tmp_path / "backup", tmp_path / "bank", SECRET)
    with PartyFolder(tmp_path / "bank").open_store(SECRET) as store:
        assert read_ledger(store).limit == 4


def test_the_journal_of_a_running_service_is_in_the_backup(made, tmp_path):
    folder = PartyFolder(made / S)
    with folder.visit_store(SECRET) as store:
        key = journal_key(store)
    entry = Entry("id-1", "digest", '{"id":1}', ("Text",), '["text"]')
    with Journal.open(folder.path, key) as journal:
        if not journal.n_decisions:
            journal.write([entry])
        write_backup(folder, SECRET, tmp_path / "backup")
        with pytest.raises(StoreError, match="in use"):
            Journal.open(folder.path, key)
    restore_backup(tmp_path / "backup", tmp_path / "network", SECRET)
    with Journal.open(tmp_path / "network", key) as journal:
        assert [one.answer for one in journal.decisions()] == ['{"id":1}']


def rewritten(backup: Path, changes: dict[str, bytes | None]) -> Path:
    """With other content of some parts, or without them."""
    target = backup.with_suffix(".changed")
    with tarfile.open(backup) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = old.extractfile(member).read()
            content = changes.get(member.name, content)
            if content is not None:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    return target


def test_a_backup_that_was_changed_or_is_damaged_leaves_no_folder(made, tmp_path):
    backup = tmp_path / "backup"
    write_backup(PartyFolder(made / BANK), SECRET, backup)
    with tarfile.open(backup) as archive:
        manifest = archive.extractfile("manifest.json").read()
        files = archive.extractfile("files").read()
    other = json.loads(manifest) | {"time": "2020-01-01T00:00:00+00:00"}
    newer = json.loads(manifest) | {"version": 2}
    for changes, error, why in (
        ({"files": files[:-1] + b"\0"}, DataError, "files is not what was saved"),
        ({"store.db": b"SQLite"}, DataError, "store.db is not what was saved"),
        ({"store.db": None}, DataError, "store.db is missing"),
        ({"manifest.json": json.dumps(other).encode()}, StoreError, "manifest of the backup"),
        ({"manifest.json": json.dumps(newer).encode()}, DataError, "not a backup of this version"),
        ({"seal": b"0" * 60}, StoreError, "damaged"),
    ):
        with pytest.raises(error, match=why):
            restore_backup(rewritten(backup, changes), tmp_path / "bank", SECRET)
        assert {path.name for path in tmp_path.iterdir()} == {"backup", "backup.changed"}
    with pytest.raises(StoreError, match="wrong passphrase"):
        restore_backup(backup, tmp_path / "bank", Passphrase("another passphrase"))
    backup.write_bytes(backup.read_bytes()[:1000])
    with pytest.raises(DataError, match="damaged"):
        restore_backup(backup, tmp_path / "bank", SECRET)
    assert {path.name for path in tmp_path.iterdir()} == {"backup", "backup.changed"}


def test_nothing_is_overwritten(made, pv4fad, tmp_path):
    backup = tmp_path / "backup"
    pv4fad("party", "backup", made / A, "--out", backup)
    before = backup.read_bytes()
    assert "already exists" in pv4fad("party", "backup", made / A, "--out", backup, code=2)
    assert backup.read_bytes() == before
    assert "is not empty" in pv4fad("party", "restore", backup, made / BANK, code=2)


def test_a_witness_names_another_party_that_it_knows(made, pv4fad, tmp_path):
    out = tmp_path / "file"
    for name in (A, "bank09"):
        options = ("--of", name, "--code", "0", "--out", out)
        assert "give the name of another party" in pv4fad(
            "audit", "witness", made / A, *options, code=2
        )
    assert not out.exists()


def test_a_witness_that_has_forgotten_itself_says_so(made, pv4fad, tmp_path):
    """Two parties that restored at once: the files of each lack what the other has forgotten."""
    shutil.copytree(made / S, tmp_path / S)
    options = ("--of", BANK, "--code", "0", "--out", tmp_path / "file")
    assert "this file lacks" not in pv4fad("audit", "witness", tmp_path / S, *options)
    assert "limits, tokens and root key are those" in pv4fad("party", "catch-up", tmp_path / S)
    said = pv4fad("audit", "witness", tmp_path / S, *options)
    assert "Until then this file lacks what that store has forgotten" in said


def test_a_store_that_is_not_shared_is_named_as_in_use(made, tmp_path, monkeypatch):
    monkeypatch.setattr("pv4fad.store.file._PATIENCE_S", 0.1)
    folder = PartyFolder(made / A)
    with folder.open_store(SECRET), pytest.raises(StoreError, match="in use"):
        write_backup(folder, SECRET, tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_a_whole_database(made, tmp_path):
    write_backup(PartyFolder(made / A), SECRET, tmp_path / "backup")
    with tarfile.open(tmp_path / "backup") as archive:
        (tmp_path / "store.db").write_bytes(archive.extractfile("store.db").read())
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
