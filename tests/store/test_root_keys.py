"""Root keys of every kind lock a store, can take each other's place, and are told apart."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest
from tests.kit.soft_token import PIN, library, new_token

from pv4fad.errors import ParameterError, StoreError
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import info_of
from pv4fad.store.key_sources import new_root_key, root_key_for
from pv4fad.store.pkcs11_token import TokenKey
from pv4fad.store.sealing import Passphrase, SecretKey

SECRET = b"a secret that nobody should read"
DAMAGE = "UPDATE info SET locked_key = CAST(substr(locked_key, 1, 59) || x'00' AS BLOB)"
ONE, TWO = SecretKey(b"\x01" * 32), SecretKey(b"\x02" * 32)


@pytest.fixture
def token(tmp_path, monkeypatch):
    """The URI of a key that is not there yet, in a token that is."""
    found = library()
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    new_token(tmp_path, "hsm")
    (tmp_path / "pin").write_text(PIN)
    (tmp_path / "pin").chmod(0o600)
    return f"pkcs11:token=hsm;object=root?module-path={found}&pin-source={tmp_path / 'pin'}"


def make(folder, root_key, party="bank-a"):
    with DiskStore.create(folder, party, root_key) as store, store.transaction() as tx:
        tx.put("state", SECRET)


def opens(folder, root_key):
    with DiskStore.open(folder, root_key) as store:
        return store.get("state") == SECRET


def raw(folder, query):
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        return connection.execute(query).fetchall()


def test_sources_lead_to_the_keys_that_they_name(tmp_path, monkeypatch):
    made = new_root_key("bank-a", f"file:{tmp_path / 'root'}")
    assert isinstance(made, SecretKey)
    assert root_key_for("bank-a", f"file:{tmp_path / 'root'}") == made
    monkeypatch.setenv("PV4FAD_KEY_A", (tmp_path / "root").read_text().strip())
    assert root_key_for("bank-a", "env:PV4FAD_KEY_A") == made
    assert isinstance(root_key_for("bank-a", str(tmp_path / "root")), Passphrase)
    assert made.key.hex() not in repr(made)


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ("env:SECRET", ParameterError, "has to start with PV4FAD_KEY"),
        ("env:PV4FAD_KEY_ABSENT", StoreError, "PV4FAD_KEY_ABSENT is not set"),
        ("env:PV4FAD_KEY_SHORT", StoreError, "64 hexadecimal digits"),
        ("file:absent", StoreError, "cannot read key file absent"),
        ("pkcs11:token=a;object=b?module-path=c&pin-value=1", ParameterError, "not written there"),
        ("pkcs11:token=a?module-path=c", ParameterError, "object= is missing"),
        ("pkcs11:token=a;object=b;slot=1?module-path=c", ParameterError, "slot does not fit"),
        ("pkcs11:token=a;object=b?module-path=c", StoreError, "no PIN for the token a"),
    ],
)
def test_a_source_that_is_none_says_what_is_wrong(monkeypatch, source, error, reason):
    monkeypatch.delenv("PV4FAD_PKCS11_PIN", raising=False)
    monkeypatch.setenv("PV4FAD_KEY_SHORT", "ab" * 31)
    with pytest.raises(error, match=reason) as found:
        root_key_for("bank-a", source)
    assert "ab" * 31 not in str(found.value)


def test_a_key_file_of_256_bits_that_others_can_read_is_refused(tmp_path):
    new_root_key("bank-a", f"file:{tmp_path / 'root'}")
    (tmp_path / "root").chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        root_key_for("bank-a", f"file:{tmp_path / 'root'}")


def test_rotation_changes_no_record_and_the_old_key_no_longer_opens(folder):
    keys = [Passphrase("correct horse battery"), ONE, TWO, Passphrase("another long passphrase")]
    make(folder, keys[0])
    records = raw(folder, "SELECT * FROM records")
    for old, new in pairwise(keys):
        before = info_of(folder).lock
        with DiskStore.open(folder, old) as store:
            store.rotate(new)
            assert store.get("state") == SECRET
        assert raw(folder, "SELECT * FROM records") == records
        assert info_of(folder).lock.kind == new.kind
        assert before.locked_key not in (folder / "store.db").read_bytes()
        with pytest.raises(StoreError, match=r"store of bank-a in .*(wrong|is locked with)"):
            DiskStore.open(folder, old)
        assert opens(folder, new)


def test_a_key_cannot_take_its_own_place_and_a_store_in_use_is_not_rotated(folder):
    make(folder, ONE)
    with DiskStore.open(folder, ONE) as store:
        with pytest.raises(StoreError, match="already locked with this 256-bit key"):
            store.rotate(SecretKey(ONE.key))
        with pytest.raises(StoreError, match="is in use"):
            DiskStore.open(folder, ONE)


def test_the_lock_of_another_store_is_refused(folder, tmp_path):
    make(folder, ONE)
    make(tmp_path / "other", ONE)
    query = "SELECT key_kind, key_about, key_since, locked_key FROM info"
    (lock,) = raw(tmp_path / "other", query)
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        connection.execute(
            "UPDATE info SET key_kind = ?, key_about = ?, key_since = ?, locked_key = ?", lock
        )
    with pytest.raises(StoreError, match="locked key is damaged"):
        DiskStore.open(folder, ONE)


@pytest.mark.parametrize("root_key", [ONE, Passphrase("correct horse battery")])
def test_a_wrong_key_and_a_damaged_lock_are_told_apart(folder, root_key):
    make(folder, root_key)
    wrong = TWO if root_key is ONE else Passphrase("correct horse batterz")
    with pytest.raises(StoreError, match=r"wrong (key|passphrase)"):
        DiskStore.open(folder, wrong)
    raw(folder, DAMAGE)
    with pytest.raises(StoreError, match="locked key is damaged"):
        DiskStore.open(folder, root_key)


ROTATING = """
import sys
from pathlib import Path
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import SecretKey
keys = [SecretKey(b"\\x01" * 32), SecretKey(b"\\x02" * 32)]
folder = Path(sys.argv[1])
try:
    store = DiskStore.open(folder, keys[0])
except Exception:
    store, keys = DiskStore.open(folder, keys[1]), keys[::-1]
print("opened", flush=True)
while True:
    keys = keys[::-1]
    store.rotate(keys[0])
"""


def test_after_a_kill_during_rotation_one_of_the_two_keys_opens_and_the_status_says_which(folder):
    make(folder, ONE)
    seen = set()
    for trial in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", ROTATING, str(folder)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(0.003 * trial)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        (named,) = [key for key in (ONE, TWO) if info_of(folder).lock.shown() == key.about()]
        other = TWO if named is ONE else ONE
        assert opens(folder, named)
        with pytest.raises(StoreError, match="wrong key"):
            DiskStore.open(folder, other)
        seen.add(named.fingerprint)
    assert seen


# Tokens.


def test_a_key_in_a_token_locks_a_store_and_takes_turns_with_others(folder, token):
    root_key = new_root_key("bank-a", token)
    make(folder, root_key)
    assert opens(folder, root_key_for("bank-a", token))
    shown = info_of(folder).lock.shown()
    assert (shown["token"], shown["key"]) == ("hsm", "root")
    records = raw(folder, "SELECT * FROM records")
    with DiskStore.open(folder, root_key) as store:
        store.rotate(ONE)
        store.rotate(root_key)
    assert raw(folder, "SELECT * FROM records") == records
    with pytest.raises(StoreError, match=r"is locked with a PKCS#11 token, not with a 256-bit key"):
        DiskStore.open(folder, ONE)
    assert opens(folder, root_key)
    assert PIN not in repr(root_key)


def test_everything_that_can_be_wrong_with_a_token_has_its_own_error(
    folder, token, tmp_path, monkeypatch
):
    with pytest.raises(StoreError, match="the PKCS#11 token hsm has no key root"):
        make(folder, root_key_for("bank-a", token))
    make(folder, new_root_key("bank-a", token))
    other = new_root_key("bank-a", token.replace("object=root", "object=other"))
    with pytest.raises(StoreError, match="wrong key: it is locked with the key root of the token"):
        DiskStore.open(folder, other)
    with pytest.raises(StoreError, match="there is no PKCS#11 token absent"):
        DiskStore.open(folder, root_key_for("bank-a", token.replace("token=hsm", "token=absent")))
    with pytest.raises(StoreError, match="cannot load the PKCS#11 library /absent"):
        DiskStore.open(folder, TokenKey("/absent", "hsm", "root", PIN))
    monkeypatch.setenv("PV4FAD_PKCS11_PIN", "9999")
    wrong_pin = root_key_for("bank-a", token.partition("&")[0])
    with pytest.raises(StoreError, match="wrong PIN for the PKCS#11 token hsm"):
        DiskStore.open(folder, wrong_pin)
    monkeypatch.setenv("PV4FAD_PKCS11_PIN", PIN)
    assert opens(folder, root_key_for("bank-a", token.partition("&")[0]))
    raw(folder, DAMAGE)
    with pytest.raises(StoreError, match="locked key is damaged"):
        DiskStore.open(folder, root_key_for("bank-a", token))


def test_a_key_that_can_leave_its_token_is_refused(folder, token):
    import pkcs11  # noqa: PLC0415  an extra

    root_key = root_key_for("bank-a", token)
    loose = {pkcs11.Attribute.EXTRACTABLE: True, pkcs11.Attribute.SENSITIVE: False}
    with root_key._session(rw=True) as session:
        session.generate_key(pkcs11.KeyType.AES, 256, label="root", store=True, template=loose)
    with pytest.raises(StoreError, match="can leave its token"):
        make(folder, root_key)
    assert not folder.exists()


# The command.


def test_the_command_says_which_key_and_rotates_it(folder, tmp_path, command_line):
    old, new = (f"file:{tmp_path / name}" for name in ("old", "new"))
    make(folder, root_key := new_root_key("bank-a", old))
    with DiskStore.open_shared(folder, root_key, owner=True) as store, store.transaction() as tx:
        tx.put("more", b"while its station works")
        code, printed, _ = command_line("keys", "status", folder)
    assert code == 0
    assert "root key: 256-bit key" in printed
    assert f"fingerprint: {root_key.fingerprint}" in printed
    assert "store format: 6" in printed
    assert root_key.key.hex() not in printed
    code, _, error = command_line("keys", "rotate", folder, "--key", old)
    assert (code, "no new key" in error) == (2, True)
    code, _, error = command_line("keys", "rotate", folder, "--key", old, "--new", new)
    assert code == 0, error
    assert opens(folder, root_key_for("bank-a", new))
    code, _, error = command_line("keys", "rotate", folder, "--key", old, "--new", new)
    assert (code, "wrong key" in error) == (2, True)


def test_party_toml_names_the_key_of_a_partys_commands(tmp_path, command_line):
    party, source = tmp_path / "hub", f"file:{tmp_path / 'root'}"
    code, _, error = command_line("party", "init", party, "--role", "aggregator", "--key", source)
    assert code == 0, error
    settings = party / "party.toml"
    settings.write_text(f'key = "{source}"\n' + settings.read_text())
    _, printed, _ = command_line("party", "check", party)
    assert "opens with a 256-bit key" in " ".join(printed.split())
