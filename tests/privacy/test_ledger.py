"""A bank spends no more ε than it allows itself, once per run, and a crash un-spends nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import inf
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.privacy.epsilon import epsilon_text, parse_epsilon, upper_text
from pv4fad.privacy.ledger import Expense, Ledger, read_ledger, require_affordable, set_limit, spend
from pv4fad.protocol.count.bank import expense_of
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import MemoryStore

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def expense(run="run-1", amount="1", account_file="version-1", **changes):
    noise = "none" if amount == "none" else "distributed"
    unit = "one account record at one bank"
    entry = Expense(run, parse_epsilon(amount), 2, unit, noise, account_file, NOW, 1)
    return replace(entry, **changes)


def bank(limit=None):
    store = MemoryStore("bank-a")
    if limit is not None:
        allow(store, limit)
    return store


def allow(store, limit):
    with store.transaction() as tx:
        set_limit(tx, parse_epsilon(limit), NOW)


def pay(store, entry):
    with store.transaction() as tx:
        spend(tx, entry)


def test_expenses_add_up_over_all_versions_of_the_account_file():
    store = bank("3")
    pay(store, expense("run-1", "1", "version-1"))
    pay(store, expense("run-2", "0.5", "version-2"))
    ledger = read_ledger(store)
    assert ledger.spent == Fraction(3, 2)
    assert ledger.left == Fraction(3, 2)
    assert ledger.limit == 3
    assert [entry.account_file for entry in ledger.expenses] == ["version-1", "version-2"]


def test_an_entry_is_read_as_it_was_written():
    store = bank("3")
    entry = expense(amount="1/3", unit="one record “ü”", sensitivity=6, honest_banks=3)
    pay(store, entry)
    assert read_ledger(store).expenses == (entry,)


def test_bank_refuses_a_run_beyond_its_budget_and_says_what_is_left_and_what_to_do():
    store = bank("2")
    pay(store, expense("run-1", "1.25"))
    with pytest.raises(BudgetError) as refusal:
        pay(store, expense("run-2", "1"))
    assert str(refusal.value) == (
        "run run-2 needs ε = 1, but 0.75 of this party's limit 2 is left (spent: 1.25)."
        " To allow it, this party sets its own limit: pv4fad ledger set-limit FOLDER EPSILON"
    )
    assert read_ledger(store).spent == Fraction(5, 4)
    allow(store, "2.25")
    pay(store, expense("run-2", "1"))
    assert read_ledger(store).left == 0


def test_whether_a_run_is_affordable_is_said_without_spending():
    store = bank("2")
    require_affordable(store, expense("run-1", "2"))
    with pytest.raises(BudgetError, match="2 of this party's limit 2 is left"):
        require_affordable(store, expense("run-1", "2.5"))
    assert read_ledger(store).expenses == ()
    pay(store, expense("run-1", "2"))
    require_affordable(store, expense("run-1", "2"))
    with pytest.raises(BudgetError, match="on other terms"):
        require_affordable(store, expense("run-1", "1"))


def test_the_last_bit_of_the_budget_can_be_spent_and_not_more():
    store = bank("1")
    for number in range(10):  # ten times the float 0.1 would not be 1
        pay(store, expense(f"run-{number}", "0.1"))
    assert read_ledger(store).left == 0
    with pytest.raises(BudgetError):
        pay(store, expense("run-x", "0.000000000000000001"))


def test_a_run_spends_once_however_often_it_is_continued():
    store = bank("1")
    for hours in range(3):
        pay(store, expense(time=NOW + timedelta(hours=hours)))
    assert read_ledger(store).expenses == (expense(),)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": Fraction(1, 2)},
        {"sensitivity": 3},
        {"noise": "per-bank"},
        {"honest_banks": 2},
        {"account_file": "version-2"},
        {"unit": "something else"},
    ],
)
def test_a_run_cannot_release_again_on_other_terms(change):
    store = bank("9")
    pay(store, expense())
    with pytest.raises(BudgetError, match="run-1 has already spent ε = 1 here"):
        pay(store, expense(**change))
    assert read_ledger(store).spent == 1


def test_an_expense_knows_the_epsilon_that_holds_if_no_other_bank_is_honest():
    assert expense().epsilon_alone == 1
    assert f"{expense(honest_banks=13).epsilon_alone:.1f}" == "6.1"
    assert expense(noise="per-bank").epsilon_alone == 1
    assert expense(amount="none").epsilon_alone == inf


@pytest.mark.parametrize(
    ("epsilon", "noise", "relied_on"),
    [(Fraction(1), "distributed", 3), (Fraction(1), "per-bank", 1), ("none", "none", 1)],
)
def test_a_release_is_entered_with_the_banks_that_its_noise_relies_on(epsilon, noise, relied_on):
    run = SimpleNamespace(
        run_id="run-1", exact_epsilon=epsilon, sensitivity=2, noise=noise, honest_banks=3
    )
    assert expense_of(run, "version-1").honest_banks == relied_on


def test_a_bank_without_a_limit_spends_nothing():
    with pytest.raises(BudgetError, match="has not set a limit"):
        pay(bank(), expense())


def test_a_run_without_noise_needs_the_limit_none_and_exhausts_every_finite_one():
    store = bank("1000000")
    with pytest.raises(BudgetError, match="has no noise"):
        pay(store, expense("run-1", "none"))
    allow(store, "none")
    pay(store, expense("run-1", "none"))
    pay(store, expense("run-2", "5"))
    assert read_ledger(store).spent == "none"
    allow(store, "1000000")
    assert read_ledger(store).left == 0
    with pytest.raises(BudgetError, match=r"0 of this party's limit 1000000 .* \(spent: none\)"):
        pay(store, expense("run-3", "0.001"))


def test_a_limit_below_what_is_spent_leaves_nothing():
    store = bank("5")
    pay(store, expense("run-1", "4"))
    allow(store, "2")
    assert read_ledger(store).left == 0


def test_the_same_limit_again_writes_nothing():
    store = bank("5")
    allow(store, "5.0")
    assert len(read_ledger(store).entries) == 1


def test_a_ledger_entry_cannot_be_changed_or_deleted_even_by_the_bank():
    store = bank("5")
    pay(store, expense())
    (_, key) = store.keys("permanent/ledger/")
    with pytest.raises(StoreError, match="permanent"), store.transaction() as tx:
        tx.delete(key)
    with pytest.raises(StoreError, match="permanent"), store.transaction() as tx:
        tx.put(key, b"{}")
    assert read_ledger(store).spent == 1


def test_a_release_that_fails_has_spent_nothing_and_one_that_is_stored_has_spent():
    store = bank("5")

    def release(crash):
        with store.transaction() as tx:
            spend(tx, expense())
            tx.record_reply("run-1/sums", bytes(32), [b"noisy sums"])
            if crash:
                raise ConnectionError

    with pytest.raises(ConnectionError):
        release(crash=True)
    assert read_ledger(store).spent == 0
    assert store.reply_to("run-1/sums", bytes(32)) is None
    release(crash=False)
    assert read_ledger(store).spent == 1
    assert store.reply_to("run-1/sums", bytes(32)) == [b"noisy sums"]


def test_the_ledger_outlives_the_process(tmp_path):
    passphrase = Passphrase("correct horse battery")
    with DiskStore.create(tmp_path / "bank", "bank-a", passphrase) as store:
        allow(store, "2")
        pay(store, expense())
    with DiskStore.open(tmp_path / "bank", passphrase) as store:
        assert read_ledger(store).expenses == (expense(),)


def test_entries_of_another_version_or_a_gap_are_refused():
    for key, value, reason in (
        (
            "permanent/ledger/000000000",
            b'{"version": 1, "kind": "x"}',
            "version 1, .* reads 3 to 4: use",
        ),
        ("permanent/ledger/000000001", b"{}", "entry 1 is missing"),
    ):
        store = bank()
        with store.transaction() as tx:
            tx.put(key, value)
        with pytest.raises(StoreError, match=reason):
            read_ledger(store)


@given(st.lists(st.fractions(Fraction(1, 1000), 10), max_size=8), st.fractions(0, 20))
def test_what_is_spent_never_exceeds_the_limit(amounts, limit):
    store = bank()
    with store.transaction() as tx:
        set_limit(tx, limit, NOW)
    accepted = []
    for number, amount in enumerate(amounts):
        try:
            pay(store, replace(expense(f"run-{number}"), epsilon=amount))
            accepted.append(amount)
        except BudgetError:
            assert sum(accepted) + amount > limit
    assert read_ledger(store).spent == sum(accepted) <= limit
    assert read_ledger(store).left == limit - sum(accepted)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(-1)},
        {"epsilon": "none"},
        {"noise": "none"},
        {"sensitivity": 0},
        {"honest_banks": 0},
        {"honest_banks": 2, "noise": "per-bank"},
        {"time": datetime(2026, 1, 1)},
    ],
)
def test_entries_that_make_no_sense_are_refused(change):
    with pytest.raises(ParameterError):
        expense(**change)


def test_limits_that_make_no_sense_are_refused():
    store = bank()
    for limit, time in ((Fraction(-1), NOW), (Fraction(1), NOW.replace(tzinfo=None))):
        with pytest.raises(ParameterError), store.transaction() as tx:
            set_limit(tx, limit, time)
    assert read_ledger(store) == Ledger(())


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1.0", 1), ("0.25", Fraction(1, 4)), ("1/3", Fraction(1, 3)), ("none", "none")],
)
def test_epsilon_is_read_exactly(text, value):
    assert parse_epsilon(text) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1e3", "inf", "nan", "None", " 1", "1/0", ".5", "1_0", "٣", "9" * 10]
)
def test_what_is_not_plainly_a_number_is_no_epsilon(text):
    with pytest.raises(ParameterError, match="expected a number"):
        parse_epsilon(text)


@pytest.mark.parametrize(
    ("bound", "text"),
    [(1.1, "1.10"), (1.671, "1.68"), (2.0, "2.00"), (1e-18, "0.01"), (inf, "none")],
)
def test_a_bound_is_never_shown_smaller_than_it_is(bound, text):
    assert upper_text(bound, 2) == text


@given(st.fractions(0, 10**6, max_denominator=10**6))
def test_epsilon_is_shown_exactly(value):
    assert parse_epsilon(epsilon_text(value)) == value
