"""Passphrases come from where they should, and sealed bytes open only as what they were."""

import io
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import StoreError
from pv4fad.store import key_sources
from pv4fad.store.key_sources import create_key_file, passphrase_for, read_key_file
from pv4fad.store.sealing import Passphrase, Sealer

LABEL = ("record", 1)


@pytest.fixture(autouse=True)
def no_passphrase_around(monkeypatch):
    for variable in ("", "_FILE", "_BANK_A", "_BANK_B"):
        monkeypatch.delenv("PV4FAD_PASSPHRASE" + variable, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("never read"))


def test_a_partys_own_variable_comes_first_then_the_common_one_then_the_file(monkeypatch, tmp_path):
    in_file = create_key_file(tmp_path / "key")
    monkeypatch.setenv("PV4FAD_PASSPHRASE_FILE", str(tmp_path / "key"))
    assert passphrase_for("bank-a") == in_file
    monkeypatch.setenv("PV4FAD_PASSPHRASE", "common")
    assert passphrase_for("bank-a").text == "common"
    monkeypatch.setenv("PV4FAD_PASSPHRASE_BANK_A", "own")
    assert passphrase_for("bank-a").text == "own"
    assert passphrase_for("bank-b").text == "common"
    assert passphrase_for("bank-a", key_file=tmp_path / "key") == in_file


def test_a_party_called_file_does_not_take_the_file_name_for_its_passphrase(monkeypatch, tmp_path):
    in_file = create_key_file(tmp_path / "key")
    monkeypatch.setenv("PV4FAD_PASSPHRASE_FILE", str(tmp_path / "key"))
    assert passphrase_for("file") == in_file


def test_without_a_terminal_the_error_says_what_to_set():
    with pytest.raises(StoreError, match="no passphrase for bank-a: set PV4FAD_PASSPHRASE_BANK_A"):
        passphrase_for("bank-a")


def test_an_empty_variable_is_not_a_passphrase(monkeypatch):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", "")
    with pytest.raises(StoreError, match="PV4FAD_PASSPHRASE is empty"):
        passphrase_for("bank-a")


def test_a_typed_passphrase_is_confirmed_when_it_is_new(monkeypatch):
    answers = iter(["typed text", "typed text", "typed text", "something else", ""])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(key_sources.getpass, "getpass", lambda prompt: next(answers))
    assert passphrase_for("bank-a", confirm=True).text == "typed text"
    with pytest.raises(StoreError, match="differ"):
        passphrase_for("bank-a", confirm=True)
    with pytest.raises(StoreError, match="empty"):
        passphrase_for("bank-a")


def test_key_files_are_random_and_for_their_owner_only(tmp_path):
    first, second = create_key_file(tmp_path / "a"), create_key_file(tmp_path / "b")
    assert first != second
    assert read_key_file(tmp_path / "a") == first
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    with pytest.raises(StoreError, match="cannot create"):
        create_key_file(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o644])
def test_a_key_file_that_others_can_read_is_refused(tmp_path, mode):
    create_key_file(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(StoreError, match="chmod 600"):
        read_key_file(tmp_path / "key")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"\n", "empty"), (b"\xff", "not text"), (b"x" * 5000, "longer than")],
)
def test_unfit_key_files_are_refused(tmp_path, content, reason):
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(StoreError, match=reason):
        read_key_file(tmp_path / "key")
    with pytest.raises(StoreError, match="cannot read key file"):
        read_key_file(tmp_path / "absent")


def test_a_passphrase_is_not_shown():
    assert repr(Passphrase("secret")) == "Passphrase()"


@given(st.binary(max_size=50), st.integers(0, 1000), st.integers(1, 255))
def test_sealed_bytes_open_as_what_they_were_and_not_if_changed(plain, position, change):
    sealer = Sealer(bytes(32))
    sealed = sealer.seal(plain, LABEL)
    assert sealer.open(sealed, LABEL) == plain
    damaged = bytearray(sealed)
    damaged[position % len(sealed)] ^= change
    for opener, what, label in (
        (sealer, bytes(damaged), LABEL),
        (sealer, sealed[:-1], LABEL),
        (sealer, b"", LABEL),
        (sealer, sealed, ("record", 2)),
        (sealer, sealed, ("record", "1")),
        (Sealer(b"\x01" * 32), sealed, LABEL),
    ):
        with pytest.raises(StoreError):
            opener.open(what, label)


def test_a_passphrase_is_the_same_however_its_accents_are_typed():
    one = Passphrase("caf\u00e9 au lait, s'il vous pla\u00eet")
    about = one.about()
    locked = one.lock(b"key", about, LABEL)
    assert (
        Passphrase("cafe\u0301 au lait, s'il vous plai\u0302t").unlock(locked, about, LABEL)
        == b"key"
    )
    with pytest.raises(StoreError, match="wrong passphrase"):
        Passphrase("cafe").unlock(locked, about, LABEL)
    with pytest.raises(StoreError, match="wrong passphrase"):
        one.unlock(locked, about | {"salt": "01" * 16}, LABEL)
