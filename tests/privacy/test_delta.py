"""What is left to chance adds up over all runs, is rounded up, and stays within a bank's limit."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.privacy.delta import delta_text, parse_delta, upper_bound
from pv4fad.privacy.ledger import charge_delta, read_ledger, set_delta_limit, set_limit
from pv4fad.store.store import MemoryStore

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY = timedelta(days=1)


def charged(store, amount, kind="match", time=NOW):
    with store.transaction() as tx:
        charge_delta(tx, kind, Fraction(amount), time)


def of_year(store, time=NOW):
    return read_ledger(store).delta.of_year(time.date())


def limited(delta, time=NOW):
    store = MemoryStore("bank-a")
    with store.transaction() as tx:
        set_delta_limit(tx, Fraction(delta), time)
    return store


def test_all_charges_of_a_year_add_up_exactly():
    store = limited("1/2")
    for amount, kind, time in (
        ("1/8", "match", NOW),
        ("1/16", "scoring", NOW),
        ("1/32", "match", NOW),
        ("1/64", "scoring", NOW + 20 * DAY),
    ):
        charged(store, amount, kind, time)
    account, until = read_ledger(store).delta, (NOW + 20 * DAY).date()
    assert account.of_year(until) == account.total == Fraction(15, 64)
    assert account.of_kind("match", until) == Fraction(5, 32)
    assert account.of_kind("scoring", until) == Fraction(5, 64)


def test_beyond_the_limit_nothing_is_entered():
    store = limited("1/8")
    charged(store, "1/8")
    before = store.snapshot()
    with pytest.raises(BudgetError, match=r"2\^-20 more would take the year to .* limit 2\^-3"):
        charged(store, Fraction(1, 2**20), "scoring")
    assert store.snapshot() == before


def test_after_a_year_a_charge_no_longer_counts():
    store = limited("1/8")
    charged(store, "1/8")
    with pytest.raises(BudgetError):
        charged(store, "1/8", time=NOW + 364 * DAY)
    charged(store, "1/8", time=NOW + 365 * DAY)
    assert of_year(store, NOW + 365 * DAY) == Fraction(1, 8)
    assert read_ledger(store).delta.total == Fraction(1, 4)


def test_a_clock_that_is_set_back_or_was_ahead_frees_nothing():
    store = limited("1/8")
    charged(store, "1/8", time=NOW + 1000 * DAY)
    for time in (NOW, NOW + 1000 * DAY, NOW + 1300 * DAY):
        with pytest.raises(BudgetError) as refused:
            charged(store, Fraction(1, 2**30), time=time)
        ahead = f"its latest day is {NOW + 1000 * DAY:%Y-%m-%d}" in str(refused.value)
        assert ahead == (time == NOW)


def test_a_daily_refresh_fits_the_default_for_years():
    """At 2^-21.7, the largest false match of one bank that the review expected: 2^-13 a year."""
    store, amount = MemoryStore("bank-a"), upper_bound([-21.7])
    for day in range(800):
        charged(store, amount, time=NOW + day * DAY)
    assert delta_text(of_year(store, NOW + 799 * DAY)) == "2^-13.1"
    assert read_ledger(store).delta.limit == Fraction(1, 1024)


def test_the_limit_in_force_is_the_last_one_and_no_limit_of_epsilon():
    store = limited("1/8")
    with store.transaction() as tx:
        set_limit(tx, Fraction(3), NOW)
        set_delta_limit(tx, Fraction(1, 16), NOW)
        set_delta_limit(tx, Fraction(1, 16), NOW + DAY)  # already
    ledger = read_ledger(store)
    assert (ledger.limit, ledger.delta.limit, len(ledger.entries)) == (3, Fraction(1, 16), 3)
    for wrong in (Fraction(-1, 2), Fraction(1)):
        with pytest.raises(ParameterError, match="between 0 and 1"), store.transaction() as tx:
            set_delta_limit(tx, wrong, NOW)


def test_an_account_that_is_damaged_is_refused():
    store = MemoryStore("bank-a", {"delta/2026-01-02": b"{"})
    with pytest.raises(StoreError, match="account of δ of 2026-01-02 is damaged"):
        read_ledger(store)


@given(st.lists(st.floats(-140, -3), max_size=5))
def test_an_upper_bound_is_not_below_the_sum_and_close_to_it(terms):
    with localcontext() as context:
        context.prec = 80
        exact = sum((Decimal(2) ** Decimal(term) for term in terms), Decimal(0))
        found = upper_bound(terms)
        upper = Decimal(found.numerator) / Decimal(found.denominator)
        steps = len(terms) * Decimal(2) ** -160
        assert exact <= upper <= exact * (1 + Decimal(2) ** -29) + steps


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 1024), "2^-10"),
        (Fraction(1025, 2**20), "2^-9.9"),
        (Fraction(1, 2**10) - Fraction(1, 2**40), "2^-10"),
        (Fraction(3, 2**41), "2^-39.4"),
    ],
)
def test_the_text_is_rounded_up(delta, text):
    assert delta_text(delta) == text


def test_limits_as_people_write_them():
    assert parse_delta("2^-10") == Fraction(1, 1024)
    assert parse_delta("0.001") == parse_delta("1e-3") == Fraction(1, 1000)
    for wrong in ("", "1", "-1", "2^10", "much", "1/3", "2^-1000", "1e-300"):
        with pytest.raises(ParameterError, match="expected a number below 1"):
            parse_delta(wrong)
