"""`pv4fad ledger`, end to end: show, set the limit, and the mistakes one can make."""

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial

import pytest

from pv4fad.audit.catch_up import mark_restored
from pv4fad.privacy.ledger import Expense, charge_delta, raw_entries, set_limit, spend
from pv4fad.store.disk import DiskStore
from pv4fad.store.key_sources import create_key_file
from pv4fad.store.sealing import Passphrase

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PASSPHRASE = "correct horse battery"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PV4FAD_PASSPHRASE_BANK_A", PASSPHRASE)
    with (
        DiskStore.create(tmp_path / "bank", "bank-a", Passphrase(PASSPHRASE)) as store,
        store.transaction() as tx,
    ):
        set_limit(tx, Fraction(3), NOW)
        unit = "one account record at one bank"
        spend(tx, Expense("run-1", Fraction(5, 4), 2, unit, "distributed", "fingerprint", NOW, 3))
    return tmp_path / "bank"


@pytest.fixture
def ledger(command_line):
    return partial(command_line, "ledger")


def test_show_prints_every_expense_the_limit_and_what_is_left(folder, ledger):
    code, text, _ = ledger("show", folder)
    assert code == 0
    for part in ("Ledger of bank-a", "run-1", "1.25", "distributed", "2026-01-02", "03:04:05"):
        assert part in text
    assert "spent 1.25, limit 3, left 1.75" in text
    assert "unit of privacy: one account record at one bank" in text
    assert "Scoring is outside the ε claim" in " ".join(text.split())
    assert "above 2" not in text


@pytest.mark.parametrize("what", [("set-limit", "1"), ("set-delta-limit", "2^-20")])
def test_a_restored_store_sets_no_limit_before_it_has_caught_up(folder, ledger, what):
    """The entry would have the number of one that is lost, and contradict what others hold."""
    with DiskStore.open(folder, Passphrase(PASSPHRASE)) as store:
        mark_restored(store)
        before = raw_entries(store)
    command, amount = what
    code, _, err = ledger(command, folder, amount)
    assert code == 2
    assert "was restored from a backup" in " ".join(err.split())
    with DiskStore.open(folder, Passphrase(PASSPHRASE)) as store:
        assert raw_entries(store) == before


def test_show_says_what_epsilon_means_if_no_other_bank_is_honest(folder, ledger):
    """Rounded up: 3.3741…, 0.77729… and 0.96688…."""
    _, text, _ = ledger("show", folder)
    cells = [[cell.strip() for cell in line.split("│")] for line in text.splitlines()]
    rows = [row[5:8] for row in cells if len(row) > 8]
    assert rows[:2] == [["3", "1.25", "77.8 %"], ["1", "3.38", "96.7 %"]]
    assert "H = 1 is the case that no other one does" in " ".join(text.split())


@pytest.mark.parametrize(("amount", "guess"), [(Fraction(9, 4), "90.5 %"), ("none", "100.0 %")])
def test_show_warns_of_a_run_that_claims_little(folder, ledger, amount, guess):
    noise = "none" if amount == "none" else "per-bank"
    with (
        DiskStore.open(folder, Passphrase(PASSPHRASE)) as store,
        store.transaction() as tx,
    ):
        set_limit(tx, "none", NOW)
        spend(tx, Expense("run-2", amount, 2, "one account record", noise, "fingerprint", NOW, 1))
    _, text, _ = ledger("show", folder)
    assert guess in text
    assert "a run that claims an ε above 2, or none, protects a record little" in text


def test_show_json_is_one_document_with_exact_amounts(folder, ledger):
    code, text, errors = ledger("show", folder, "--json")
    assert (code, errors) == (0, "")
    shown = json.loads(text)
    assert (shown["spent"], shown["limit"], shown["left"]) == ("1.25", "3", "1.75")
    assert shown["expenses"] == [
        {
            "run_id": "run-1",
            "epsilon": "1.25",
            "sensitivity": 2,
            "unit": "one account record at one bank",
            "noise": "distributed",
            "honest_banks": 3,
            "epsilon_alone": pytest.approx(3.3741, abs=1e-4),
            "guessing_bound": pytest.approx(0.7773, abs=1e-4),
            "guessing_bound_alone": pytest.approx(0.9669, abs=1e-4),
            "account_file": "fingerprint",
            "time": "2026-01-02T03:04:05+00:00",
        }
    ]


def test_the_bank_sets_its_limit(folder, ledger):
    assert ledger("set-limit", folder, "4.5")[:2] == (0, "bank-a: limit 4.5, left 3.25\n")
    assert json.loads(ledger("show", folder, "--json")[1])["limit"] == "4.5"


def test_show_prints_delta_of_the_year_by_kind(folder, ledger):
    today = datetime.now(UTC)
    with DiskStore.open(folder, Passphrase(PASSPHRASE)) as store, store.transaction() as tx:
        charge_delta(tx, "match", Fraction(1, 2**30), today - timedelta(days=500))
        charge_delta(tx, "match", Fraction(1, 2**20), today)
        charge_delta(tx, "scoring", Fraction(3, 2**20), today)
        charge_delta(tx, "live", Fraction(1, 2**51), today)
    text = " ".join(ledger("show", folder)[1].split())
    assert (
        "δ of the last 365 days 2^-17.9 (match 2^-20, scoring 2^-18.4, live 2^-51), limit" in text
    )
    assert "ε holds up to δ" in text
    assert json.loads(ledger("show", folder, "--json")[1])["delta"] == {
        "year": "2^-17.9",
        "limit": "2^-10",
        "match": "2^-20",
        "scoring": "2^-18.4",
        "live": "2^-51",
        "restored": "0",
        "in_total": "2^-17.9",
    }


def test_the_bank_sets_its_limit_of_delta(folder, ledger):
    code, text, _ = ledger("set-delta-limit", folder, "1e-6")
    assert (code, text.strip().split(", ")[-1]) == (0, "limit 2^-19.9")
    shown = json.loads(ledger("show", folder, "--json")[1])
    assert (shown["delta"]["limit"], shown["limit"]) == ("2^-19.9", "3")
    code, _, errors = ledger("set-delta-limit", folder, "2")
    assert (code, errors) == (2, "error: δ '2': expected a number below 1, such as 2^-10 or 1e-6\n")


def test_a_limit_that_is_no_number_is_refused(folder, ledger):
    code, _, errors = ledger("set-limit", folder, "lots")
    assert code == 2
    assert "expected a number" in errors


def test_a_key_file_opens_the_store(tmp_path, ledger):
    passphrase = create_key_file(tmp_path / "key")
    DiskStore.create(tmp_path / "bank", "bank-b", passphrase).close()
    code, text, _ = ledger("show", tmp_path / "bank", "--key-file", tmp_path / "key")
    assert code == 0
    assert "spent 0, limit not set, left 0" in text


@pytest.mark.parametrize("passphrase", ["wrong passphrase", ""])
def test_a_wrong_passphrase_is_one_line_and_exit_code_2(folder, ledger, monkeypatch, passphrase):
    monkeypatch.setenv("PV4FAD_PASSPHRASE_BANK_A", passphrase)
    code, text, errors = ledger("show", folder)
    assert (code, text) == (2, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert PASSPHRASE not in errors


def test_a_folder_without_a_store_is_one_line_and_exit_code_2(tmp_path, ledger):
    code, _, errors = ledger("show", tmp_path)
    assert code == 2
    assert "holds no store" in errors
