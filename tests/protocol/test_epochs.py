"""Matches and rounds after training: what is new, what is forgotten, what is limited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.class_world import ClassWorld, trained_class_world
from tests.kit.recording import Recording, changed, kinds_kept, record
from tests.kit.scoring_worlds import again
from tests.kit.views import envelope
from tests.kit.world import match_accounts, secret_key_of

from pv4fad.errors import BudgetError, DataError, OrderError, ProtocolError
from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.match.messages import TablesInForce
from pv4fad.protocol.match.state import BankShares, OpenedBlock, PlacedTable
from pv4fad.protocol.parameters import TablePlan, count_sizes
from pv4fad.protocol.propose.inputs import match_parameters
from pv4fad.protocol.propose.messages import BankKeys, RunProposal
from pv4fad.protocol.propose.state import NetworkSecret, OwnKeys, PublicKeys
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.tables import TableAccounts
from pv4fad.protocol.wire import decode
from pv4fad.store.records import Records

ASKED = AskedSet((1, 2), True)
N_NEW = 10


@pytest.fixture
def world() -> ClassWorld:
    """Two banks, a table for each and a broadcast table; training knows 30 of 40 accounts."""
    return again(trained_class_world(seed=13, mode="mixed", n_new=N_NEW))


@pytest.fixture
def one_bank() -> ClassWorld:
    return again(trained_class_world(seed=13, n_banks=1, n_new=N_NEW))


def everybody(world: ClassWorld) -> np.ndarray:
    return np.arange(len(world.keys))


def of_training(world: ClassWorld) -> np.ndarray:
    return np.sort(np.concatenate([one.keys for one in world.data.tables.values()]))


def test_accounts_met_after_training_can_be_asked_about_once_they_are_matched(world):
    network, run_id = world.federation.payment_network, world.parameters.run_id
    unknown = network.unknown_accounts(run_id, world.account_keys)
    assert np.array_equal(unknown, np.setdiff1d(everybody(world), of_training(world)))
    assert len(unknown) == N_NEW
    with pytest.raises(OrderError, match="match them first"):
        network.score(run_id, world.round(everybody(world), ASKED))
    match_accounts(world, [world.account_keys[one] for one in unknown], replace=False)
    assert network.unknown_accounts(run_id, world.account_keys) == []
    bits = world.ask(everybody(world), ASKED)
    assert np.array_equal(bits, world.true_bits(everybody(world), ASKED))
    assert 0 < bits[unknown].sum() < len(unknown)


def test_nobody_can_tell_whether_there_were_new_accounts(one_bank):
    seen = []
    for new in ([], one_bank.account_keys):
        recording = Recording(again(one_bank), np.zeros(0))
        record(recording)
        match_accounts(recording.world, new, replace=False)
        seen.append([envelope(e.message, len(e.data)) for e in recording.events])
    assert len(seen[0]) > 4
    assert seen[0] == seen[1]


def test_after_a_bank_changed_its_records_a_new_match_tells(world):
    """And everybody has new keys, and has forgotten the old ones."""
    run_id = world.parameters.run_id
    before = world.true_bits(everybody(world), ASKED)
    world = replace(world, records={key: (atom + 1) % 3 for key, atom in world.records.items()})
    for bank, party in enumerate(world.federation.banks):
        records = world.bank_records(bank)
        party.replace_records(replace(records, fingerprint="version 2"))
    with pytest.raises(DataError, match="bank01: the records are not those"):
        match_accounts(world, world.account_keys, replace=False)
    world.federation.payment_network.close(run_id, 1)
    old_keys = [secret_key_of(bank, run_id) for bank in world.federation.banks]
    match_accounts(world, world.account_keys, replace=True)
    expected = world.true_bits(everybody(world), ASKED)
    assert not np.array_equal(expected, before)
    assert np.array_equal(world.ask(everybody(world), ASKED), expected)
    new_keys = [secret_key_of(bank, run_id) for bank in world.federation.banks]
    assert not set(old_keys) & set(new_keys)
    for bank, key in zip(world.federation.banks, old_keys, strict=True):
        assert not any(key in one for one in bank.store.snapshot().values())


JOIN = (NetworkSecret, PublicKeys, OwnKeys, PlacedTable, OpenedBlock, BankShares)


def epochs(party, run_id: str) -> set[int]:
    """The matches after training that a party has anything of."""
    with party.store.transaction() as tx:
        return Records(tx, run_id).epochs()


def test_old_joins_and_keys_are_forgotten(one_bank):
    federation, run_id = one_bank.federation, one_bank.parameters.run_id
    network, (bank,) = federation.payment_network, federation.banks
    keys = one_bank.account_keys
    assert kinds_kept(network, run_id, JOIN) | kinds_kept(bank, run_id, JOIN) == set(JOIN)
    match_accounts(one_bank, keys[::2], replace=False)
    assert PlacedTable in kinds_kept(network, run_id, JOIN, epoch=1)
    match_accounts(one_bank, keys, replace=False)
    # The second delta took the place of the first.
    for party in (network, bank):
        assert epochs(party, run_id) == {2}
    match_accounts(one_bank, keys, replace=True)
    for party in (network, bank):
        assert epochs(party, run_id) == {3}
        assert not kinds_kept(party, run_id, JOIN)
    bits = one_bank.ask(everybody(one_bank), ASKED)
    assert np.array_equal(bits, one_bank.true_bits(everybody(one_bank), ASKED))


def renamed(plan: TablePlan, table_id: str, bank: str) -> TablePlan:
    return plan.model_copy(update={"table_id": table_id, "banks": (bank,)})


UNFIT = {
    "other sizes": lambda _: {"counted": "coarse", "sizes": count_sizes("coarse", "class", 2, 2)},
    "another modulus": lambda _: {"model_modulus": PLAIN_MODULI[-1]},
    "not metered": lambda it: {"metered": not it.metered},
    "another bound": lambda it: {"bound": it.bound + 1},
    "training": lambda _: {"model_modulus": None, "purpose": "training"},
    "one more bank": lambda it: {
        "banks": {**it.banks, "bank02": 1000},
        "tables": (*it.tables, renamed(it.tables[0], "bank02@1", "bank02")),
    },
    "a table of another match": lambda it: {
        "tables": (renamed(it.tables[0], "bank01@7", "bank01"),)
    },
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_a_bank_joins_no_match_that_does_not_belong_to_its_model(one_bank, unfit):
    network, (bank,) = one_bank.federation.payment_network, one_bank.federation.banks
    tables = {"bank01": TableAccounts((), np.zeros(0, np.int64), np.zeros(0, np.int64))}
    accounts = {bank.name: bank.n_accounts}
    parameters, named = match_parameters(one_bank.parameters, tables, accounts, epoch=1)
    (proposal,) = network.match(parameters, named, replace=True)
    before = bank.store.snapshot()
    other = parameters.model_copy(update=unfit(parameters)).model_dump_json().encode()
    with pytest.raises(ProtocolError, match="a match that does not belong to the model"):
        bank.handle(changed(decode(proposal), parameters=other))
    assert bank.store.snapshot() == before
    assert bank.handle(proposal)


def test_a_match_of_new_accounts_goes_on_with_the_keys_in_use_and_sends_none(one_bank):
    recording = Recording(one_bank, np.zeros(0))
    record(recording)
    for epoch, replace_all in ((1, False), (2, True), (3, False)):
        match_accounts(one_bank, one_bank.account_keys, replace=replace_all)
        (proposal,) = (e for e in recording.of(RunProposal) if e.message.address.epoch == epoch)
        (answer,) = (e for e in recording.of(BankKeys) if e.message.address.epoch == epoch)
        assert bool(proposal.message.public_keys) == replace_all
        assert bool(answer.message.public_key) == replace_all
        if not replace_all:
            with pytest.raises(ProtocolError, match="a key where none was asked for"):
                answer.party().handle(changed(answer.message, public_key=b"another"))
    bits = one_bank.ask(everybody(one_bank), ASKED)
    assert np.array_equal(bits, one_bank.true_bits(everybody(one_bank), ASKED))


def test_a_bank_keeps_the_match_that_was_just_completed(one_bank):
    recording = Recording(one_bank, np.zeros(0))
    record(recording)
    match_accounts(one_bank, one_bank.account_keys, replace=True)
    (event,) = recording.of(TablesInForce, "bank01")
    bank = event.party()
    with pytest.raises(ProtocolError, match="a complete match is in force"):
        bank.handle(changed(event.message, epochs=(0,)))
    assert bank.store.snapshot() == event.before


def test_rounds_leave_nothing_behind_but_the_log(world):
    federation, asked = world.federation, of_training(world)
    parties = (federation.payment_network, *federation.banks, federation.aggregator)
    log = ("party/Entry/", "party/NumberOf/")

    def n_records() -> list[int]:
        return [sum(not one.startswith(log) for one in party.store.keys("")) for party in parties]

    world.ask(asked, ASKED)
    after_one = n_records()
    world.ask(asked, ASKED)
    assert n_records() == after_one
    assert sum(map(len, federation.payment_network.unanswered())) < 10**6  # of training


def test_one_match_or_round_at_a_time(one_bank):
    network, run_id = one_bank.federation.payment_network, one_bank.parameters.run_id
    questions = one_bank.round(of_training(one_bank), ASKED)
    batch, queries = network.score(run_id, questions)
    with pytest.raises(OrderError, match=f"match or batch {batch} is not over"):
        network.score(run_id, questions)
    network.close(run_id, batch)
    assert len(one_bank.federation.ask(run_id, questions)) == len(questions.keys)
    with pytest.raises(OrderError, match=f"batch {batch} is over"):
        one_bank.federation.deliver(queries)


def test_a_bank_limits_the_rounds_it_answers_per_day(one_bank):
    """One count for a table and for the tables that extend or replace it; a round is a layer."""
    limited, asked = again(one_bank, layers_per_day=1), of_training(one_bank)
    limited.ask(asked, ASKED)
    match_accounts(limited, limited.account_keys, replace=True)
    with pytest.raises(BudgetError, match="bank01 answers at most 1 layers"):
        limited.ask(asked, ASKED)
    # Its limit raised, or on another day, the bank answers what was asked.
    generous = again(limited, copies=False)
    generous.federation.resume()
    network, run_id = generous.federation.payment_network, generous.parameters.run_id
    assert np.array_equal(network.bits(run_id, 3), generous.true_bits(asked, ASKED))
