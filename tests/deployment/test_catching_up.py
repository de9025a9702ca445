"""A party that was restored from a backup: it forgets nothing that it has spent, asked or sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from tests.kit.hub_world import letter
from tests.kit.in_threads import ThreadFederation, write_data
from tests.kit.small_federation import telling_tables

from pv4fad.audit.catch_up import CaughtUp, mark_restored, require_caught_up
from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.audit.verify import verify_logs
from pv4fad.audit.witness import Witness
from pv4fad.deployment import catching_up
from pv4fad.deployment.catching_up import take_in, witnesses_needed
from pv4fad.deployment.party_folder import PartySettings, read_identity
from pv4fad.deployment.status import Journal, new_status
from pv4fad.errors import DataError, ProtocolError, StoreError
from pv4fad.lead.settings import TrainingSettings
from pv4fad.privacy.ledger import Restored, Spent, read_ledger, set_limit, spent_in_all
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.live.booking import LiveBooked
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.metering import Budget, Metered
from pv4fad.protocol.score.state import LayersAnswered
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore

BANK, BANKS = "bank01", ["bank01", "bank02"]
S, A = PAYMENT_NETWORK, AGGREGATOR
EPSILON = Fraction(3, 4)
ROLES = {S: S, A: A}


@dataclass
class Lived:
    """A federation that has trained and scored, and copies of its stores from before."""

    federation: ThreadFederation
    new: dict[str, dict[str, bytes]]
    trained: dict[str, dict[str, bytes]]


def copies(federation: ThreadFederation) -> dict[str, dict[str, bytes]]:
    return {name: store.snapshot() for name, store in federation.stores.items()}


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> Lived:
    root = tmp_path_factory.mktemp("lived")
    data = write_data(root / "data", BANKS, telling_tables())
    settings = TrainingSettings(epsilon=str(EPSILON), seed=33, alert_share=0.05, honest_banks=1)
    federation = ThreadFederation(root, data, BANKS, settings)
    for bank in BANKS:
        with federation.stores[bank].transaction() as tx:
            set_limit(tx, 2 * EPSILON - Fraction(1, 8), datetime(2026, 1, 2, 12, tzinfo=UTC))
    federation.run("check")
    for name in federation.stores:  # as a backup does: it notes how far the ledger is
        LogFile.of(federation.stores[name], read_identity(federation.stores[name]))
    new = copies(federation)
    federation.run("train")
    trained = copies(federation)
    federation.run("score")
    federation.close()
    return Lived(federation, new, trained)


@pytest.fixture
def lived(once, tmp_path):
    federation = once.federation.copied_to(tmp_path)
    yield Lived(federation, once.new, once.trained)
    federation.close()


def settings_of(name: str) -> PartySettings:
    return PartySettings(role=ROLES.get(name, "bank"), name=name, live_ticks_per_day=0)


def restore(federation: ThreadFederation, name: str, records: dict[str, bytes]) -> str:
    """The party's store is as it was then, and waits."""
    federation.stations[name].close()
    federation.stores[name] = MemoryStore(name, records)
    return mark_restored(federation.stores[name])


def witness(federation: ThreadFederation, by: str, of: str, code: str) -> Witness:
    store, key = federation.stores[by], federation.cards[of].public.signing_key
    said = Witness.of(store, read_identity(store), of, key, code)
    return Witness.model_validate_json(said.to_json())


def witnesses(federation: ThreadFederation, of: str, code: str) -> list[Witness]:
    needed = witnesses_needed(settings_of(of), federation.cards)
    return [witness(federation, by, of, code) for by in needed]


def catch_up(federation: ThreadFederation, name: str, files: Iterable[Witness]) -> CaughtUp:
    settings = settings_of(name)
    found = take_in(settings, federation.cards, federation.stores[name], list(files))
    federation.start(name)
    return found


def logs(federation: ThreadFederation) -> list[LogFile]:
    return [LogFile.of(store, read_identity(store)) for store in federation.stores.values()]


def refused(federation: ThreadFederation, name: str, files: Iterable[Witness], error, why: str):
    """And the store is as before: it still waits."""
    before = federation.stores[name].snapshot()
    with pytest.raises(error, match=why):
        take_in(settings_of(name), federation.cards, federation.stores[name], list(files))
    assert federation.stores[name].snapshot() == before
    with pytest.raises(StoreError, match="was restored from a backup"):
        require_caught_up(federation.stores[name])


def test_a_restored_bank_has_spent_what_it_has_shown_and_refuses_what_does_not_fit_any_more(lived):
    federation = lived.federation
    truth = spent_in_all(federation.stores[BANK])
    code = restore(federation, BANK, lived.new[BANK])
    assert read_ledger(federation.stores[BANK]).spent == 0  # what the backup says
    with pytest.raises(StoreError, match="does not know what it has spent"):
        require_caught_up(federation.stores[BANK])
    found = catch_up(federation, BANK, witnesses(federation, BANK, code))
    require_caught_up(federation.stores[BANK])
    ledger = read_ledger(federation.stores[BANK])
    assert ledger.spent == EPSILON
    assert found.after.covers(truth)
    assert found.after.delta_steps == truth.delta_steps
    assert isinstance(ledger.entries[-1], Restored)
    assert ledger.entries[-1].witnesses == (A, S)
    assert verify_logs(logs(federation)).faults == ()
    # Twice 3/4 is more than its limit, and not more than that of the other bank.
    with federation.stores["bank02"].transaction() as tx:
        set_limit(tx, 2 * EPSILON, datetime(2026, 1, 3, 12, tzinfo=UTC))
    with pytest.raises(ProtocolError, match=r"bank01: cannot continue \(BudgetError\)"):
        federation.run("train")
    assert read_ledger(federation.stores[BANK]).spent == EPSILON


def test_a_restored_bank_takes_part_in_what_its_limit_allows_and_the_logs_fit_together(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.new[BANK])
    catch_up(federation, BANK, witnesses(federation, BANK, code))
    for bank in BANKS:
        with federation.stores[bank].transaction() as tx:
            set_limit(tx, 2 * EPSILON, datetime(2026, 1, 3, 12, tzinfo=UTC))
    assert federation.run("train").state == "finished"
    assert read_ledger(federation.stores[BANK]).spent == 2 * EPSILON
    assert verify_logs(logs(federation)).faults == ()


def test_a_bank_that_has_lost_its_answers_of_today_answers_no_more_today(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.trained[BANK])
    found = catch_up(federation, BANK, witnesses(federation, BANK, code))
    assert any("/score-reply/" in one.message for one in found.lost)
    assert found.after.epsilon == found.before.epsilon
    assert found.after.delta > found.before.delta
    with pytest.raises(ProtocolError, match=r"bank01: cannot continue \(BudgetError\)"):
        federation.run("score")


def test_a_bank_whose_count_is_ahead_of_the_clock_gets_no_day_back(lived):
    """And a limit that is raised gives it nothing, either: nobody knows what is left."""
    federation = lived.federation
    code = restore(federation, BANK, lived.trained[BANK])
    ahead = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    store = federation.stores[BANK]
    with store.transaction() as tx:
        Records.of_party(tx).put(LayersAnswered(ahead, 5), "routed")
    catch_up(federation, BANK, witnesses(federation, BANK, code))
    with store.transaction() as tx:
        noted = Records.of_party(tx).get(LayersAnswered, "routed")
    assert noted.day == ahead
    assert noted.layers >= 2**62


def test_a_restored_bank_has_been_asked_live_every_day_for_all_that_it_knows(lived):
    """Live queries are in no log, so that the others' files say nothing about them."""
    federation = lived.federation
    present = spent_in_all(federation.stores[BANK])
    trained = date.fromisoformat(read_ledger(federation.stores[BANK]).delta.latest)
    code = restore(federation, BANK, federation.stores[BANK].snapshot())
    store, per_day = federation.stores[BANK], 2**20
    settings = settings_of(BANK).model_copy(update={"live_ticks_per_day": per_day})
    found = take_in(settings, federation.cards, store, witnesses(federation, BANK, code))
    assert not found.lost
    assert found.after == spent_in_all(store)
    with store.transaction() as tx:
        booked = Records.of_party(tx).get(LiveBooked)
    # It was trained today, or before midnight: each day since then, and tomorrow.
    n_days = (date.fromisoformat(booked.until) - trained).days + 1
    assert n_days in (2, 3)
    charged = Fraction(found.after.delta_steps - present.delta_steps, 2**64)
    assert abs(charged - Fraction(n_days * per_day, 2**72)) <= Fraction(1, 2**64)
    assert booked.per_day == per_day


def test_a_bank_that_has_forgotten_its_first_match_may_have_been_asked_live_since(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.new[BANK])
    settings = settings_of(BANK).model_copy(update={"live_ticks_per_day": 2**20})
    store = federation.stores[BANK]
    take_in(settings, federation.cards, store, witnesses(federation, BANK, code))
    with store.transaction() as tx:
        booked = Records.of_party(tx).get(LiveBooked)
    assert booked.until == (datetime.now(UTC) + timedelta(days=1)).date().isoformat()


def test_an_aggregator_that_has_forgotten_a_stop_still_stops(tmp_path, monkeypatch):
    """Whatever release number the bank's next answer has: a person there has to act."""
    stopping = Budget(positives_per_day=0, release=3)
    monkeypatch.setattr("tests.kit.in_threads.DEFAULT_BUDGET", stopping)
    data = write_data(tmp_path / "data", BANKS, telling_tables())
    settings = TrainingSettings(epsilon="none", seed=33, alert_share=0.05, metered=True)
    federation = ThreadFederation(tmp_path, data, BANKS, settings)
    federation.run("train")
    trained = federation.stores[A].snapshot()
    with pytest.raises(ProtocolError, match=r"cannot continue \(BudgetError\)"):
        federation.run("score")
    stopped = metered(federation)
    assert stopped
    assert all(one.stopped_at == 3 for one in stopped.values())
    code = restore(federation, A, trained)
    assert metered(federation) == {}
    catch_up(federation, A, witnesses(federation, A, code))
    assert metered(federation).keys() == stopped.keys()
    budget = Budget(positives_per_day=9, release=4)
    for one in metered(federation).values():
        said = one.after(np.zeros(1, np.uint32), budget, "2099-01-01")
        assert "metered-release = 5" in str(said)
    federation.close()


@pytest.mark.parametrize("name", ["x", "run/bank01/0/metered-reply"])
def test_whoever_signs_what_is_no_id_keeps_no_aggregator_from_catching_up(name):
    store = MemoryStore(A)
    odd = LoggedMessage.model_construct(message=name)
    found = CaughtUp((odd,), (odd,), Spent(0, 0), Spent(0, 0))
    with store.transaction() as tx:
        catching_up._note_lost(tx, settings_of(A), found, "2026-05-01")
    assert store.snapshot() == MemoryStore(A).snapshot()


def metered(federation: ThreadFederation) -> dict[str, Metered]:
    """What the aggregator knows of the banks."""
    with federation.stores[A].transaction() as tx:
        records = Records.of_party(tx)
        found = {bank: records.find(Metered, bank) for bank in BANKS}
    return {bank: one for bank, one in found.items() if one is not None}


def test_a_payment_network_that_has_forgotten_questions_asks_with_new_tables_only(lived):
    federation = lived.federation
    code = restore(federation, S, lived.trained[S])
    found = catch_up(federation, S, witnesses(federation, S, code))
    used = {one.message for one in found.lost}
    assert any("/score-query/" in message for message in used)
    for job in ("score", "match"):
        with pytest.raises(ProtocolError, match=r"payment-network: cannot continue \(StoreError\)"):
            federation.run(job)
    federation.run("refresh")
    assert federation.run("score").state == "finished"
    for bank in BANKS:
        key = federation.cards[S].public.signing_key
        chains = LogFile.of(federation.stores[bank], read_identity(federation.stores[bank])).chains
        (received,) = (one for one in chains if (one.direction, one.key) == ("received", key.hex()))
        ids = [one.message for one in received.messages]
        assert len(ids) == len(set(ids))
        since = {m for m in ids if m not in used and int(m.split("/")[2]) > 0}
        assert since
        assert min(int(m.split("/")[2]) for m in since) > max(int(m.split("/")[2]) for m in used)
    assert verify_logs(logs(federation)).faults == ()


def test_a_job_that_a_hub_goes_on_with_is_not_begun_once_more_by_who_has_forgotten_it(lived):
    """A hub waits for an hour: nobody asks for a second training, and nobody pays for it."""
    federation = lived.federation
    code = restore(federation, S, lived.trained[S])
    assert catch_up(federation, S, witnesses(federation, S, code)).lost
    Journal(federation.root, new_status(None, "train"), list(federation.cards))
    with pytest.raises(ProtocolError, match=r"payment-network: cannot continue \(StoreError\)"):
        federation.run()
    assert [read_ledger(federation.stores[bank]).spent for bank in BANKS] == [EPSILON] * 2
    assert federation.run("refresh").state == "finished"


def test_a_restored_aggregator_goes_on(lived):
    federation = lived.federation
    code = restore(federation, A, lived.new[A])
    found = catch_up(federation, A, witnesses(federation, A, code))
    assert any("/noisy-counts/" in one.message for one in found.lost)
    federation.run("refresh")
    assert federation.run("score").state == "finished"
    assert verify_logs(logs(federation)).faults == ()


@pytest.mark.parametrize("name", [BANK, S, A])
def test_who_has_lost_nothing_goes_on_where_it_was(lived, name):
    federation = lived.federation
    present = federation.stores[name].snapshot()
    code = restore(federation, name, present)
    assert not catch_up(federation, name, witnesses(federation, name, code)).lost
    assert federation.stores[name].snapshot() == present
    assert federation.run("score").state == "finished"


def test_without_catching_up_the_others_notice_an_old_store(lived):
    """As before: nothing here weakens it."""
    federation = lived.federation
    federation.stations[BANK].close()
    federation.stores[BANK] = MemoryStore(BANK, lived.trained[BANK])
    federation.start(BANK)
    with pytest.raises(ProtocolError, match="cannot continue"):
        federation.run("refresh")


def test_files_that_are_not_what_they_should_be_are_refused(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.new[BANK])
    by_a, by_s = (witness(federation, by, BANK, code) for by in (A, S))
    for files, why in (
        ([by_s], "the file of aggregator is missing"),
        ([], "the file of aggregator, payment-network is missing"),
        ([by_s, by_s], "two files of payment-network"),
        ([by_a, witness(federation, S, "bank02", code)], "is about bank02"),
        ([by_a, witness(federation, S, BANK, "0" * 16)], "was not made for this restoration"),
        ([by_a, by_s.model_copy(update={"witness": "bank09"})], "payment-network is missing"),
        ([by_a, by_s.model_copy(update={"received": by_s.received[:-1]})], "is not signed by"),
        ([by_a, by_s.model_copy(update={"code": code, "sent": ()})], "is not signed by"),
    ):
        refused(federation, BANK, files, DataError, why)


def signed_again(federation: ThreadFederation, said: Witness, by: str) -> Witness:
    """By a witness that lies."""
    return said.signed_by(read_identity(federation.stores[by]))


def test_a_witness_can_neither_invent_an_expense_nor_leave_out_what_it_has_confirmed(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.new[BANK])
    by_a, by_s = (witness(federation, by, BANK, code) for by in (A, S))
    last = by_s.received[-1]
    more = last.spent.model_copy(update={"epsilon_steps": 2**40})
    invented = (*by_s.received[:-1], last.model_copy(update={"spent": more}))
    for received, why in (
        (invented, "bank01 has not signed message"),
        (by_s.received[:1], "lacks messages that payment-network has confirmed"),
    ):
        lie = signed_again(federation, by_s.model_copy(update={"received": received}), S)
        refused(federation, BANK, [by_a, lie], DataError, why)


def test_another_party_under_a_known_name_is_no_witness(lived):
    federation = lived.federation
    code = restore(federation, BANK, lived.new[BANK])
    key = federation.cards[BANK].public.signing_key
    stranger = Witness.of(MemoryStore(S), Identity.generate(S), BANK, key, code)
    files = [witness(federation, A, BANK, code), stranger]
    refused(federation, BANK, files, DataError, "is not signed by the payment-network whose card")


def test_a_store_that_was_put_back_and_noticed_it_can_catch_up(lived):
    """Without a backup file: such as a snapshot of the machine."""
    federation = lived.federation
    federation.stations[BANK].close()
    federation.stores[BANK] = MemoryStore(BANK, lived.trained[BANK])
    federation.start(BANK)
    with pytest.raises(ProtocolError, match=r"bank01: cannot continue \(StoreError\)"):
        federation.run("refresh")
    federation.stations[BANK].close()
    code = mark_restored(federation.stores[BANK])
    assert catch_up(federation, BANK, witnesses(federation, BANK, code)).lost
    federation.run("resume")
    assert verify_logs(logs(federation)).faults == ()


def test_a_store_that_went_on_after_it_was_put_back_is_refused_for_good(lived):
    """It has told other things under the same numbers: there is no way to say which are true."""
    federation = lived.federation
    code = restore(federation, BANK, lived.trained[BANK])
    store, keys = federation.stores[BANK], known_keys(c.public for c in federation.cards.values())
    other = letter(BANK, S, np.zeros(1, np.uint32), 1)
    Notary(store, read_identity(store), keys).stamped(other)
    files = witnesses(federation, BANK, code)
    refused(federation, BANK, files, StoreError, "this store cannot go on: make a new party folder")
