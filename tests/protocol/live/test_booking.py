"""Live queries in a bank's account of δ."""

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from pv4fad.errors import StoreError
from pv4fad.privacy.ledger import read_ledger, set_delta_limit, set_limit
from pv4fad.protocol.live.booking import Booking, book_forgotten
from pv4fad.protocol.live.budget import BLOCK, TickBudget
from pv4fad.store.store import MemoryStore

PER_DAY = 2 * BLOCK
OF_DAY = Fraction(PER_DAY, 2**72)


class Bank:
    """Its store, a clock, and a station that works when it is told to."""

    def __init__(self, tmp_path):
        self.path, self.store = tmp_path / "ticks.json", MemoryStore("bank01")
        self.now, self.waiting = datetime(2026, 5, 1, 12, tzinfo=UTC), []
        with self.store.transaction() as tx:
            set_limit(tx, Fraction(1), self.now)
        self.start()

    def start(self, per_day=PER_DAY):
        booking = Booking(self.store, self.errand, per_day, lambda: self.now)
        self.ticks = TickBudget(self.path, per_day, lambda: self.now, is_booked=booking.covers)

    def errand(self, work):
        done = Future()
        self.waiting.append((work, done))
        return done

    def work(self):
        waiting, self.waiting = self.waiting, []
        for work, done in waiting:
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

    @property
    def booked(self):
        return read_ledger(self.store).delta.of_kind("live", self.now.date())


@pytest.fixture
def bank(tmp_path):
    return Bank(tmp_path)


def test_nothing_is_answered_before_the_queries_of_the_day_are_in_the_account(bank):
    assert not bank.ticks.spend()
    assert bank.booked == 0
    bank.work()
    assert bank.booked == OF_DAY
    assert bank.ticks.spend()


def test_a_bank_that_nobody_asks_live_enters_nothing(bank):
    bank.start()
    bank.work()
    assert bank.booked == 0


def test_a_larger_number_per_day_is_entered_before_more_are_answered(bank):
    bank.ticks.spend()
    bank.work()
    bank.start(3 * PER_DAY)
    assert not bank.ticks.spend()
    bank.work()
    assert bank.booked == 4 * OF_DAY
    assert bank.ticks.spend()
    bank.start(PER_DAY)  # fewer again: nothing is given back, nothing entered
    assert bank.ticks.spend()


def test_no_query_waits_at_midnight_and_each_day_is_entered_once(bank):
    bank.ticks.spend()
    bank.work()
    for days in range(1, 4):
        assert bank.ticks.spend()
        bank.work()
        assert bank.booked == (days + 1) * OF_DAY
        bank.start()  # after a restart as before it
        assert bank.ticks.spend()
        bank.work()
        assert bank.booked == (days + 1) * OF_DAY
        bank.now += timedelta(days=1)


def test_a_day_that_does_not_fit_the_limit_is_not_answered_and_the_next_is_tried(bank, caplog):
    with bank.store.transaction() as tx:
        set_delta_limit(tx, OF_DAY / 2, bank.now)
    for _ in range(3):
        assert not bank.ticks.spend()
        bank.work()
    assert bank.booked == 0
    assert caplog.text.count("above this party's limit") == 1
    with bank.store.transaction() as tx:
        set_delta_limit(tx, 4 * OF_DAY, bank.now)
    bank.now += timedelta(days=1)
    assert not bank.ticks.spend()
    bank.work()
    assert bank.ticks.spend()


def test_a_store_that_was_restored_counts_every_day_of_which_it_knows_nothing(bank):
    bank.ticks.spend()
    bank.work()
    bank.ticks.spend()
    bank.work()
    assert bank.booked == 2 * OF_DAY  # today and tomorrow
    bank.now += timedelta(days=4)
    for _ in range(2):  # the second time nothing is missing
        with bank.store.transaction() as tx:
            book_forgotten(tx, "2026-05-01", PER_DAY // 2, bank.now)
        delta = read_ledger(bank.store).delta
        assert delta.of_kind("restored", bank.now.date()) == 4 * OF_DAY
    bank.start()
    assert bank.ticks.spend()
    bank.work()
    assert bank.booked == 2 * OF_DAY  # today and tomorrow are entered already


@pytest.mark.parametrize(("since", "days"), [("2026-04-29", 4), ("2026-05-03", 2)])
def test_a_restored_store_of_before_live_queries_counts_from_the_last_day_it_knows(
    bank, since, days
):
    for per_day in (0, PER_DAY):
        with bank.store.transaction() as tx:
            book_forgotten(tx, since, per_day, bank.now)
    assert read_ledger(bank.store).delta.total == days * OF_DAY


def test_a_store_that_is_busy_is_tried_again(bank, monkeypatch):
    def busy():
        raise StoreError("somebody else has it")

    with monkeypatch.context() as patched:
        patched.setattr(bank.store, "transaction", busy)
        assert not bank.ticks.spend()
        bank.work()
    assert not bank.ticks.spend()
    bank.work()
    assert bank.ticks.spend()
