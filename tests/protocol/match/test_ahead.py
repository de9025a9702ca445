"""What the payment network encrypts ahead of time: once for all banks of a table, nothing kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.class_world import make_class_world, trained_class_world
from tests.kit.scoring_worlds import again

from pv4fad.hashing.table_size import TableLayout
from pv4fad.protocol.match.messages import EncryptedTable
from pv4fad.protocol.match.network import MatchMessages, place_accounts
from pv4fad.protocol.match.state import BinTags, PowersSent, SharedPowers
from pv4fad.protocol.match.steps import encrypt_powers
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import match_parameters
from pv4fad.protocol.propose.ring_keys import keep_new_keys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.tables import TableAccounts
from pv4fad.protocol.wire import Address, decode
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore

N_BLOCKS, BANKS = 3, ("bank01", "bank02", "bank03")


class Counting:
    """Workers that count what they are given, and say which block it was."""

    def __init__(self) -> None:
        self.n_begun: Counter[bytes] = Counter()

    def begin(self, function, jobs):
        assert function is encrypt_powers
        made = [job.tags.tobytes() for job in jobs]
        self.n_begun.update(made)
        return iter(made)


@pytest.fixture(scope="module")
def proposed() -> tuple[RunParameters, dict[str, bytes]]:
    """A table of three blocks for three banks, a block in each message; the store that has it."""
    world = make_class_world(1, n_banks=3, mode="broadcast")
    (plan,) = world.parameters.tables
    layout = TableLayout.for_accounts(1000, 1, least_blocks=N_BLOCKS)
    plan = plan.model_copy(update={"layout": layout})
    parameters = world.parameters.model_copy(update={"tables": (plan,), "blocks_per_message": 1})
    store = MemoryStore(PAYMENT_NETWORK)
    with store.transaction() as tx:
        run = Records(tx, parameters.run_id)
        run.put(Proposal(parameters.model_dump_json().encode()))
        keep_new_keys(parameters, run)
        place_accounts(parameters, plan, world.data.tables["broadcast"], run)
    return parameters, store.snapshot()


@settings(max_examples=30)
@given(st.permutations([bank for bank in BANKS for _ in range(N_BLOCKS)]))
def test_each_block_is_encrypted_once_whichever_bank_is_first(proposed, order):
    """Each bank gets its blocks in order, but any bank may overtake the others."""
    parameters, before = proposed
    (plan,), pool, store = parameters.tables, Counting(), MemoryStore(PAYMENT_NETWORK, before)
    messages, n_sent = MatchMessages(pool), Counter[str]()
    sent: dict[int, set[tuple[bytes, ...]]] = {}
    with store.transaction() as tx:
        run = Records(tx, parameters.run_id)
        for bank in order:
            index = n_sent[bank]
            n_sent[bank] += 1
            address = Address(PAYMENT_NETWORK, bank, run.run_id, plan.table_id, 0, index)
            sent.setdefault(index, set()).add(messages.make_table(address, run).powers)
        assert not any(any(run.places(one)) for one in (BinTags, PowersSent, SharedPowers))
    assert [len(sent[index]) for index in range(N_BLOCKS)] == [1] * N_BLOCKS
    assert list(pool.n_begun.values()) == [1] * N_BLOCKS
    assert not messages._begun


def begun(network):
    """What a payment network has begun."""
    return network._chains._make[EncryptedTable].__self__._begun


def with_three_blocks(parameters):
    """Of its first table, sent in two messages."""
    layout = TableLayout.for_accounts(1000, 1, least_blocks=N_BLOCKS)
    plan, *others = parameters.tables
    plan = plan.model_copy(update={"layout": layout})
    return parameters.model_copy(update={"tables": (plan, *others)})


def test_what_was_begun_for_a_match_that_was_given_up_is_forgotten():
    world = again(trained_class_world(seed=13, n_banks=1))
    network, (bank,) = world.federation.payment_network, world.federation.banks
    epoch = network.next_epoch(world.parameters.run_id)
    accounts = TableAccounts((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    parameters, named = match_parameters(
        world.parameters, {bank.name: accounts}, {bank.name: bank.n_accounts}, epoch
    )
    (proposal,) = network.match(with_three_blocks(parameters), named, replace=False)
    (keys,) = bank.handle(proposal)
    network.handle(keys)
    assert len(begun(network)) == 1
    network.close(parameters.run_id, epoch)
    assert not begun(network)


def test_what_was_begun_for_a_training_that_was_given_up_is_forgotten_with_the_next():
    world = make_class_world(1, n_banks=1)
    network = world.federation.payment_network
    parties = {one.name: one for one in (*world.federation.banks, world.federation.aggregator)}
    first = with_three_blocks(world.parameters)
    waiting = network.propose(first, world.data)
    while not begun(network):
        message = waiting.pop(0)
        for answer in parties[decode(message).address.receiver].handle(message):
            waiting += network.handle(answer)
    network.propose(first.model_copy(update={"run_id": "another"}), world.data)
    assert not begun(network)
