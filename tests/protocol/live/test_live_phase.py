"""The whole phase on real matches: tables, a delta, a refresh; what a bank answers and refuses."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.kit.class_world import ClassWorld, make_class_world, trained_class_world
from tests.kit.scoring_worlds import again
from tests.kit.world import make_world, match_accounts

from pv4fad.errors import CiphertextError, OrderError, ProtocolError, WireError
from pv4fad.parties.bank_stages import BankStage, Released
from pv4fad.protocol.live.bank import TICKS_KEPT, LiveAnswers
from pv4fad.protocol.live.budget import BLOCK, TickBudget, spend_all_of_today
from pv4fad.protocol.live.messages import LiveQuery, LiveRefusal, LiveReply
from pv4fad.protocol.live.network import (
    LiveRefusalError,
    Sent,
    place,
    read_reply,
    read_shares,
    read_tables,
    send,
)
from pv4fad.protocol.live.plan import TRACKS, most_questions
from pv4fad.protocol.live.steps import QueryMaker
from pv4fad.protocol.propose.state import OwnKeys
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.tables import hashed_id
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.store.records import Records

KINDS = (AskedSet((1,), False), AskedSet((2,), False), AskedSet((), True))
CLOCK = bytes(16)


class Asker:
    """The payment network's end, without a service around it."""

    def __init__(self, world: ClassWorld, sets=KINDS) -> None:
        self.world = world
        with world.federation.payment_network.store.transaction() as tx:
            training = Records(tx, world.parameters.run_id)
            self.tables = read_tables(training, sets)
            self.makers = {}
            for bank in self.tables.banks:
                maker = QueryMaker(
                    self.tables.public[bank], self.tables.flood, self.tables.coefficients
                )
                for shares in read_shares(training, bank):
                    maker.add_block(shares)
                self.makers[bank] = maker
        self.tick = 0

    def everything(self, bank: str):
        """All accounts of a bank, all sets, as many as fit one query."""
        mine = np.flatnonzero(self.tables.bank == self.tables.banks.index(bank))
        n_sets = len(self.tables.sets)
        account, of_set = np.repeat(mine, n_sets), np.tile(np.arange(n_sets), len(mine))
        return place(self.tables, account, of_set, most_questions(65537))[0]

    def ask(self, bank: str, answer, asked=None):
        """The bits of a query, and what was asked."""
        asked = self.everything(bank) if asked is None else asked
        self.tick += 1
        query = self.makers[bank].query(asked.placed)
        sent = Sent(bank, self.tick, asked, query.rho)
        data = send(self.tables, sent, CLOCK, query.ciphertext)
        return asked, read_reply(self.tables, sent, answer(data))

    def truth(self, asked) -> np.ndarray:
        """By a plain look-up."""
        number = {hashed_id(key): i for i, key in enumerate(self.world.account_keys)}
        accounts = {
            self.tables.number[one]: i for one, i in number.items() if one in self.tables.number
        }
        key = np.array([accounts[one] for one in asked.account])
        bits = np.stack([self.world.true_bits(key, one) for one in self.tables.sets], axis=1)
        return bits[np.arange(len(key)), asked.set]


def live_bank(world: ClassWorld, number: int, spend=lambda: True) -> LiveAnswers:
    bank = world.federation.banks[number]
    answers = LiveAnswers(bank.name, spend)
    answers.use(bank.live_keys())
    return answers


@pytest.fixture(scope="module")
def trained() -> ClassWorld:
    """Two banks, a table for each and a broadcast table; training knows 30 of 40 accounts."""
    return trained_class_world(seed=13, mode="mixed", n_new=10)


def test_bits_are_those_of_the_records_in_training_delta_and_refresh(trained):
    world = again(trained)
    network, run_id = world.federation.payment_network, world.parameters.run_id
    sizes, asker = [], Asker(world)
    for step in ("training", "delta", "refresh"):
        if step == "delta":
            unknown = network.unknown_accounts(run_id, world.account_keys)
            match_accounts(world, [world.account_keys[one] for one in unknown], replace=False)
        if step == "refresh":
            world = dataclasses.replace(
                world, records={key: (atom + 1) % 3 for key, atom in world.records.items()}
            )
            for bank, party in enumerate(world.federation.banks):
                records = dataclasses.replace(world.bank_records(bank), fingerprint="version 2")
                party.replace_records(records)
            match_accounts(world, world.account_keys, replace=True)
            with pytest.raises(LiveRefusalError, match="other keys"):
                asker.ask("bank01", live_bank(world, 0).answer)
        asker, found = Asker(world), []
        for number, bank in enumerate(asker.tables.banks):
            asked, bits = asker.ask(bank, live_bank(world, number).answer)
            assert np.array_equal(bits, asker.truth(asked)), step
            found.append(bits)
        assert 0 < np.concatenate(found).mean() < 1
        sizes.append(len(asker.tables.slot))
        assert asker.tables.epoch == (2 if step == "refresh" else 0)
    assert sizes[0] < sizes[1] == sizes[2]


def test_accounts_of_a_broadcast_table_have_no_place(trained):
    tables = Asker(trained).tables
    hashed = [hashed_id(key) for key in trained.account_keys]
    unknown = np.array([bank is None for bank, _ in trained.account_keys])
    assert unknown.any()
    assert (tables.numbers_of(hashed)[unknown] == -1).all()


def test_a_model_where_absent_is_ordinary_has_other_sets():
    world = trained_class_world(seed=5, n_banks=2, mode="mixed", absent="ordinary")
    asker = Asker(world, (AskedSet((0, 1), False), AskedSet((1,), False)))
    asked, bits = asker.ask("bank01", live_bank(world, 0).answer)
    assert np.array_equal(bits, asker.truth(asked))


def test_a_bank_in_the_middle_of_a_training_has_keys_and_no_model():
    world = make_class_world(3, n_banks=1)
    (bank,) = world.federation.banks
    network = world.federation.payment_network
    (to_aggregator,) = network.propose(world.parameters, world.data)
    (receipt,) = world.federation.aggregator.handle(to_aggregator)
    (proposal,) = network.handle(receipt)
    bank.handle(proposal)
    assert world.record(bank, OwnKeys).secret
    assert bank.live_keys() == {}


def test_a_bank_without_a_model_refuses(trained):
    nobody = LiveAnswers("bank01", lambda: True)
    nobody.use({})
    with pytest.raises(LiveRefusalError, match="no such model"):
        Asker(trained).ask("bank01", nobody.answer)


@pytest.fixture
def asker(trained):
    return Asker(trained)


def query_of(asker: Asker, tick: int = 1) -> bytes:
    asked = asker.everything("bank01")
    query = asker.makers["bank01"].query(asked.placed)
    return send(asker.tables, Sent("bank01", tick, asked, query.rho), CLOCK, query.ciphertext)


def refusal(data: bytes) -> str:
    message = decode(data)
    assert isinstance(message, LiveRefusal), message
    return message.reason


def test_the_same_query_gets_the_same_reply_and_another_one_for_its_tick_none(asker):
    spent = []
    bank = live_bank(asker.world, 0, lambda: spent.append(1) or True)
    query = query_of(asker)
    reply = bank.answer(query)
    assert isinstance(decode(reply), LiveReply)
    assert bank.answer(query) == reply
    assert refusal(bank.answer(query_of(asker))) == "another query"
    assert len(spent) == 1
    later = query_of(asker, 2 + TICKS_KEPT)
    assert isinstance(decode(bank.answer(later)), LiveReply)
    assert refusal(bank.answer(query_of(asker, 5))) == "tick over"
    assert bank.answer(query) == reply


def test_another_clock_begins_anew(asker):
    bank, query = live_bank(asker.world, 0), decode(query_of(asker))
    assert isinstance(decode(bank.answer(encode(query))), LiveReply)
    for clock in (b"1" * 16, CLOCK):
        other = dataclasses.replace(decode(query_of(asker)), clock=clock)
        assert isinstance(decode(bank.answer(encode(other))), LiveReply)


def test_a_bank_remembers_only_so_many_replies(asker):
    bank = live_bank(asker.world, 0)
    message = decode(query_of(asker))
    for tick in range(TICKS_KEPT + 10):
        address = dataclasses.replace(message.address, index=tick)
        bank.answer(encode(LiveQuery(address, message.clock, message.ciphertext)))
    assert len(bank._answered) == TICKS_KEPT


@pytest.mark.parametrize(
    "wrong", [{"sender": "aggregator"}, {"sender": "bank02"}, {"receiver": "bank02"}]
)
def test_queries_of_and_for_others_are_refused(asker, wrong):
    message = decode(query_of(asker))
    address = dataclasses.replace(message.address, **wrong)
    with pytest.raises(ProtocolError, match="somebody else"):
        live_bank(asker.world, 0).answer(encode(LiveQuery(address, CLOCK, message.ciphertext)))


def test_what_is_no_query_is_refused_and_costs_nothing(asker):
    spent = []
    bank = live_bank(asker.world, 0, lambda: spent.append(1) or True)
    message = decode(query_of(asker))
    for ciphertext in (b"", message.ciphertext[:-1], bytes(len(message.ciphertext))):
        with pytest.raises(CiphertextError):
            bank.answer(encode(LiveQuery(message.address, CLOCK, ciphertext)))
    with pytest.raises(WireError):
        bank.answer(query_of(asker)[:-1])
    with pytest.raises(ProtocolError, match="asked live with a live-refusal"):
        bank.answer(encode(LiveRefusal(message.address, "tick over")))
    assert not spent
    for short in ({"clock": b""}, {"clock": bytes(17)}):
        with pytest.raises(WireError):
            dataclasses.replace(message, **short)
    with pytest.raises(WireError):
        LiveReply(message.address, np.zeros(TRACKS - 1, np.uint32))
    with pytest.raises(WireError):
        LiveRefusal(message.address, "because")


def test_sizes_do_not_depend_on_what_is_asked(asker):
    nothing = place(asker.tables, np.zeros(0, np.int64), np.zeros(0, np.int64), 0)[0]
    bank, seen = live_bank(asker.world, 0), set()
    for tick, asked in enumerate((nothing, asker.everything("bank01")), start=1):
        query = asker.makers["bank01"].query(asked.placed)
        sent = Sent("bank01", tick, asked, query.rho)
        data = send(asker.tables, sent, CLOCK, query.ciphertext)
        seen.add((len(data), len(bank.answer(data))))
    assert len(seen) == 1


def test_a_reply_to_another_query_or_of_another_kind_is_no_answer(asker):
    def stale(data: bytes) -> bytes:
        address = dataclasses.replace(decode(data).address.answer(), index=99)
        return encode(LiveReply(address, np.zeros(TRACKS, np.uint32)))

    def echo(data: bytes) -> bytes:
        message = decode(data)
        return encode(LiveQuery(message.address.answer(), CLOCK, message.ciphertext))

    def wild(data: bytes) -> bytes:
        residues = np.full(TRACKS, 65537, np.uint32)
        return encode(LiveReply(decode(data).address.answer(), residues))

    for answer, why in ((stale, "not the answer"), (echo, "live-query"), (wild, "modulo t")):
        with pytest.raises(ProtocolError, match=why) as error:
            asker.ask("bank01", answer)
        assert not isinstance(error.value, LiveRefusalError)


def test_a_query_takes_the_first_questions_that_fit(asker):
    account = np.zeros(40, np.int64)  # one account: one track
    asked, fit = place(asker.tables, account, np.arange(40), 1000)
    assert np.flatnonzero(fit).tolist() == list(range(16))
    assert asked.set.tolist() == list(range(16))
    everything = asker.everything("bank01")
    few, fit = place(asker.tables, everything.account, everything.set, 5)
    assert fit.sum() == len(few.placed) == 5


def test_the_paper_model_is_not_asked_live():
    world = make_world(1, n_banks=1, model="released")
    network, (bank,) = world.federation.payment_network, world.federation.banks
    network.propose(world.parameters, world.data)
    with network.store.transaction() as tx, pytest.raises(OrderError, match="not asked live"):
        read_tables(Records(tx, world.parameters.run_id), KINDS)
    with bank.store.transaction() as tx:  # as after its training
        records = Records(tx, world.parameters.run_id)
        records.put(Proposal(world.parameters.model_dump_json().encode()))
        records.put(BankStage(Released()))
    assert bank.live_keys() == {}


# The budget of a day.


class Day:
    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_budget_lasts_for_a_day_and_not_longer_after_restarts(tmp_path, caplog):
    day, path = Day(), tmp_path / "live" / "ticks.json"
    budget = TickBudget(path, BLOCK + 10, day)
    assert all(budget.spend() for _ in range(100))
    # Killed: what is left of its block is lost, and nothing is counted less than it was.
    budget = TickBudget(path, BLOCK + 10, day)
    assert [budget.spend() for _ in range(12)] == [True] * 10 + [False] * 2
    day.now -= timedelta(days=2)  # a clock that is set back
    assert not budget.spend()
    assert not TickBudget(path, BLOCK + 10, day).spend()
    assert "Nothing is renewed before 2026-05-01" in caplog.text
    day.now += timedelta(days=3)
    assert budget.spend()
    assert TickBudget(path, BLOCK + 10, day).spend()
    assert not TickBudget(path, BLOCK, day).spend()


def test_it_is_on_disk_before_the_query_is_answered(tmp_path, monkeypatch, asker):
    path = tmp_path / "ticks.json"
    budget = TickBudget(path, 1_000)
    bank = live_bank(asker.world, 0, budget.spend)

    def failing(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("pv4fad.protocol.live.budget._write", failing)
    with pytest.raises(OSError, match="full"):
        bank.answer(query_of(asker))
    monkeypatch.undo()
    assert isinstance(decode(bank.answer(query_of(asker))), LiveReply)
    assert path.read_text().count("1000") == 1


def test_beyond_the_budget_the_bank_says_so(tmp_path, asker, caplog):
    bank = live_bank(asker.world, 0, TickBudget(tmp_path / "ticks.json", 2).spend)
    kinds = [type(decode(bank.answer(query_of(asker, tick)))) for tick in (1, 2, 3, 4)]
    assert kinds == [LiveReply, LiveReply, LiveRefusal, LiveRefusal]
    assert refusal(bank.answer(query_of(asker, 5))) == "budget spent"
    assert caplog.text.count("budget spent") == 1
    assert not TickBudget(tmp_path / "none.json", 0).spend()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"day": 1, "ticks": 2}', '{"day": "", "ticks": -1}']
)
def test_a_damaged_count_is_not_taken_for_none(tmp_path, content, caplog):
    day, path = Day(), tmp_path / "ticks.json"
    path.write_text(content)
    budget = TickBudget(path, 10, day)
    assert "ticks.json, the count of live queries of the day, is damaged" in caplog.text
    assert budget.left == 0
    assert not budget.spend()
    assert not TickBudget(path, 1_000_000, day).spend()  # a larger limit is none
    day.now += timedelta(days=1)
    assert TickBudget(path, 10, day).spend()


def test_a_day_that_is_spent_whatever_is_allowed_is_never_an_earlier_one(tmp_path):
    day, path = Day(), tmp_path / "live" / "ticks.json"
    assert spend_all_of_today(path, "2026-05-01") == "2026-05-01"
    assert not TickBudget(path, 2**40, day).spend()
    assert spend_all_of_today(path, "2026-04-30") == "2026-05-01"
    assert not TickBudget(path, 2**40, day).spend()


def test_the_address_says_run_keys_and_tick(asker):
    address = decode(query_of(asker, 7)).address
    run_id = asker.world.parameters.run_id
    assert address == Address("payment-network", "bank01", run_id, "", 0, 7)
