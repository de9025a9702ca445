"""Metered questions: right bits, a bit per slot, and no more positive ones than a bank allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.class_world import trained_class_world
from tests.kit.forest_case import UNKNOWN
from tests.kit.recording import Recording, changed, record
from tests.kit.scoring_worlds import again
from tests.kit.uniformity import are_uniform_and_fresh
from tests.kit.world import match_accounts

from pv4fad.errors import BudgetError, OrderError, ParameterError, ProtocolError
from pv4fad.protocol.match.state import PlacedTable
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.score.messages import MeteredReply, OwnPart, ScoreQuery, ScoreReply
from pv4fad.protocol.score.metering import (
    DEFAULT_BUDGET,
    SEED_BYTES,
    STOPPED_NEXT,
    Metered,
    permutation,
    put_back,
)
from pv4fad.protocol.state import Proposal, parameters_of
from pv4fad.protocol.wire import decode, encode
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore

ASKED = AskedSet((1, 2), True)
ORDINARY = AskedSet((0,), False)


def metered(**options):
    """Two banks; `options`: of `again`."""
    return again(trained_class_world(seed=5, n_banks=2, metered=True), **options)


def everybody(world):
    return np.arange(len(world.keys))


# What honest parties compute.


@pytest.mark.parametrize("asked", [ASKED, AskedSet((2,), False), ORDINARY])
def test_every_bit_equals_that_of_a_trusted_third_party(asked):
    world = metered()
    bits = world.ask(everybody(world), asked)
    assert np.array_equal(bits, world.true_bits(everybody(world), asked))
    assert 0 < bits.sum() < len(bits)


def test_accounts_of_unknown_banks_are_not_asked_about():
    world = again(trained_class_world(seed=5, n_banks=2, mode="mixed", metered=True))
    known = np.array([bank != UNKNOWN for bank, _ in world.keys])
    asked = np.flatnonzero(known)
    assert np.array_equal(world.ask(asked, ASKED), world.true_bits(asked, ASKED))
    with pytest.raises(OrderError, match="unknown holders"):
        world.ask(np.flatnonzero(~known), ASKED)


def test_messages_do_not_depend_on_what_is_asked():
    world, seen = metered(), []
    for accounts in (np.arange(0), everybody(world)):
        sizes: list[tuple] = []
        world.ask(accounts, ASKED, lambda m, size, to=sizes: to.append((m.kind, size)))
        seen.append(sizes)
    assert seen[0] == seen[1]
    assert {"own-part", "metered-reply"} <= {kind for kind, _ in seen[0]}


# What the aggregator sees.


@pytest.fixture(scope="module")
def run():
    recording = Recording(metered(), np.zeros(0))
    record(recording)
    world = recording.world
    assert np.array_equal(
        world.ask(everybody(world), ASKED), world.true_bits(everybody(world), ASKED)
    )
    return recording


def parts_of(run):
    """The two parts of each sum at the aggregator, by table."""
    own = {e.message.address.table_id: e.message.residues for e in run.of(OwnPart)}
    replies = {e.message.address.table_id: e.message.residues for e in run.of(MeteredReply)}
    assert own.keys() == replies.keys() == {"bank01", "bank02"}
    return {table: (own[table], replies[table]) for table in own}


def test_each_part_is_uniform_and_their_sum_is_the_number_of_positive_bits(run):
    world, t = run.world, run.world.parameters.plain_modulus
    sums = []
    for own, reply in parts_of(run).values():
        assert are_uniform_and_fresh(np.stack([own, reply]), t)
        sums.append((own.astype(np.uint64) + reply) % t)
    assert max(one.max() for one in sums) == 1
    assert sum(one.sum() for one in sums) == world.true_bits(everybody(world), ASKED).sum()


def test_the_aggregator_cannot_tell_which_bin_is_positive(run):
    """The slots are permuted by a seed that goes to the bank alone, anew for every query."""
    world = run.world
    seeds = {e.message.address.table_id: e.message.permutation for e in run.of(ScoreQuery)}
    assert len(set(seeds.values())) == 2
    assert all(len(seed) == SEED_BYTES for seed in seeds.values())
    for table, (own, reply) in parts_of(run).items():
        slots = (own.astype(np.uint64) + reply) % world.parameters.plain_modulus
        placed = world.record(world.federation.payment_network, PlacedTable, table)
        bins = placed.bins[world.true_bits(placed.keys, ASKED) == 1]
        order = permutation(seeds[table], len(slots))
        assert sorted(order[np.flatnonzero(slots)]) == sorted(bins)
        # Some 18 of 16,384 slots: four meet their own bin by chance with probability 1e-8.
        assert slots[bins].sum() < 4 < len(bins)
    stored = b"".join(run.of(OwnPart)[-1].after.values())
    assert not any(seed in stored for seed in seeds.values())


def test_a_bank_and_the_aggregator_together_see_which_of_its_accounts_are_positive(run):
    """One has the seed, the other both parts: no metering without it (protocol.md §6.8)."""
    world, t = run.world, run.world.parameters.plain_modulus
    (seed,) = {
        e.message.permutation for e in run.of(ScoreQuery) if e.message.address.table_id == "bank01"
    }
    own, reply = parts_of(run)["bank01"]
    bits = put_back(seed, ((own.astype(np.uint64) + reply) % t).astype(np.uint32))
    placed = world.record(world.federation.payment_network, PlacedTable, "bank01")
    positive = placed.bins[world.true_bits(placed.keys, ASKED) == 1]
    assert sorted(np.flatnonzero(bits)) == sorted(positive)


def test_a_bank_has_no_keys_for_live_questions_of_a_metered_run():
    """Those answers would not pass the aggregator."""
    plain = again(trained_class_world(seed=5, n_banks=2))
    assert set(plain.federation.banks[0].live_keys()) == {plain.parameters.run_id}
    assert metered().federation.banks[0].live_keys() == {}


def test_answers_of_a_bank_go_to_nobody_but_the_aggregator(run):
    for event in run.of(ScoreQuery):
        reply, receipt = event.answers()
        assert isinstance(reply, MeteredReply)
        assert reply.address.receiver == "aggregator"
        assert receipt.kind == "receipt"
    assert {e.message.address.sender for e in run.of(ScoreReply)} == {"aggregator"}


# A payment network that deviates.


def crafted(monkeypatch, change):
    """From now on its coefficients are other ones."""
    honest = AskedSet.coefficients
    monkeypatch.setattr(AskedSet, "coefficients", lambda self, n: change(honest(self, n)))


def ones_passed_on(world, bank: str) -> int:
    aggregator = world.federation.aggregator
    with aggregator.store.transaction() as tx:
        found = Records(tx, world.parameters.run_id).find(Metered, bank)
    return 0 if found is None else found.positives


def test_coefficients_that_ask_for_more_than_a_bit_are_stopped(monkeypatch):
    """k·c: the class itself would be in the answer."""
    world = metered()
    crafted(monkeypatch, lambda c: c * (1 + np.arange(len(c))))
    with pytest.raises(BudgetError, match="neither 0 nor 1"):
        world.ask(everybody(world), AskedSet((1, 2), False))
    monkeypatch.undo()
    with pytest.raises(BudgetError, match="metered-release = 1"):
        world.ask(everybody(world), ASKED)
    assert ones_passed_on(world, "bank01") == 0


def test_nothing_is_asked_in_the_open():
    """The bank opens shares that S has not masked: what it would learn does not pass."""
    world = metered()
    network = world.federation.payment_network
    _, messages = network.score(world.parameters.run_id, world.round(everybody(world), ASKED))
    own = next(one for one in map(decode, messages) if isinstance(one, OwnPart))
    query = next(one for one in messages if decode(one).kind == "score-query")
    for guess in (np.zeros_like(own.residues), np.ones_like(own.residues)):
        with pytest.raises(BudgetError, match="neither 0 nor 1"):
            deviate(metered(), world, [query, changed(own, residues=guess)])


def deviate(world, like, messages):
    """Deliver other messages than the payment network made."""
    network = world.federation.payment_network
    network.store = MemoryStore(network.name, like.federation.payment_network.store.snapshot())
    world.federation.deliver(messages)
    run_id = world.parameters.run_id
    world.federation.payment_network.bits(run_id, network.next_epoch(run_id) - 1)


@pytest.mark.parametrize("budget", [3, 0])
def test_no_more_positive_answers_than_the_bank_allows(budget):
    """A question that most accounts answer with yes exceeds it, and nothing is passed on."""
    world = metered(budget=replace(DEFAULT_BUDGET, positives_per_day=budget))
    with pytest.raises(BudgetError, match=f"budget of {budget} positive answers a day"):
        world.ask(everybody(world), ASKED)
    assert ones_passed_on(world, "bank01") == ones_passed_on(world, "bank02") == 0


def test_the_budget_is_for_all_rounds_of_a_day():
    world = metered()
    accounts = everybody(world)
    at_bank = [k for k in accounts if world.keys[k][0] == 0]
    positive = np.array([k for k in at_bank if world.true_bits(np.array([k]), ASKED)[0]])
    assert len(positive) >= 4
    world = metered(budget=replace(DEFAULT_BUDGET, positives_per_day=3))
    assert world.ask(positive[:2], ASKED).tolist() == [1, 1]
    with pytest.raises(BudgetError, match="used up"):
        world.ask(positive[2:4], ASKED)

    later = again(world, copies=False, budget=replace(DEFAULT_BUDGET, positives_per_day=3))
    with pytest.raises(BudgetError, match="until a person there acts"):
        later.ask(positive[2:3], ASKED)
    lifted = replace(DEFAULT_BUDGET, positives_per_day=3, release=1)
    later = again(world, copies=False, budget=lifted)
    assert later.ask(positive[2:3], ASKED).tolist() == [1]  # the third of this day
    with pytest.raises(BudgetError, match="used up"):
        later.ask(positive[3:4], ASKED)
    assert ones_passed_on(later, "bank01") == 3


def test_a_day_begins_with_the_whole_budget_and_never_twice():
    budget, one = replace(DEFAULT_BUDGET, positives_per_day=2), np.ones(2, np.uint32)
    first = Metered().after(one, budget, "2026-01-02")
    assert isinstance(first, Metered)
    assert first.after(one[:1], budget, "2026-01-02") == (
        "its budget of 2 positive answers a day is used up"
    )
    assert isinstance(first.after(one, budget, "2026-01-03"), Metered)
    # A clock that goes back does not help.
    refused = first.after(one[:1], budget, "2026-01-01")
    assert isinstance(refused, str)
    assert "Nothing is renewed before 2026-01-02" in refused


def test_a_stop_whose_number_is_lost_is_one_at_whatever_number_comes_next():
    """At an aggregator that was restored."""
    one, lost = np.ones(1, np.uint32), Metered(stopped_at=STOPPED_NEXT)
    budget = replace(DEFAULT_BUDGET, release=7)
    assert "metered-release = 8" in lost.after(one, budget, "2026-01-02")
    stopped = lost.stopped(budget)
    assert "metered-release = 8" in stopped.after(one, budget, "2026-01-02")
    assert isinstance(stopped.after(one, replace(budget, release=8), "2026-01-02"), Metered)


def test_one_part_for_each_step(run):
    """The same again gets the same answer, another one in its place is refused."""
    first, second = run.of(OwnPart)[0], run.of(MeteredReply)[0]
    for event in (first, second):
        aggregator = run.world.federation.aggregator
        assert type(aggregator).handle(aggregator, event.data) == event.replies
        other = changed(event.message, residues=event.message.residues[::-1].copy())
        with pytest.raises(OrderError, match="other content"):
            type(aggregator).handle(aggregator, other)


def test_parts_that_do_not_go_together_are_refused(run):
    parts = [e for e in run.events if e.message.address.table_id == "bank01"]
    last = [e for e in parts if e.kind in (OwnPart, MeteredReply)][-1]
    shorter = changed(last.message, residues=last.message.residues[:-1])
    with pytest.raises(ProtocolError, match="other part"):
        last.party().handle(shorter)
    too_large = last.message.residues.copy()
    too_large[0] = run.world.parameters.plain_modulus
    with pytest.raises(ProtocolError):
        last.party().handle(changed(last.message, residues=too_large))


def test_a_bank_answers_metered_runs_in_no_other_way(run):
    event = run.of(ScoreQuery)[0]
    for seed in (b"", b"short", bytes(SEED_BYTES + 1)):
        with pytest.raises(ProtocolError):
            event.party().handle(changed(event.message, permutation=seed))
    plain = again(trained_class_world(seed=5, n_banks=2))
    network = plain.federation.payment_network
    _, (query, *_) = network.score(plain.parameters.run_id, plain.round(everybody(plain), ASKED))
    with pytest.raises(ProtocolError, match="metered"):
        plain.federation.banks[0].handle(changed(decode(query), permutation=bytes(SEED_BYTES)))


def unmetered(parameters):
    """The same, but for answers that pass the aggregator."""
    return parameters.model_copy(update={"metered": False})


def but_for_the_log(party):
    """What it holds, answers included; that a message came is noted, also if it was refused."""
    return {k: v for k, v in party.store.snapshot().items() if not k.startswith("party/")}


def believe_unmetered(party, run_id, epoch):
    with party.store.transaction() as tx:
        run = Records(tx, run_id, epoch)
        run.put(Proposal(unmetered(parameters_of(run)).model_dump_json().encode()))


def test_a_further_match_does_not_switch_metering_off():
    """The payment network proposes it so, and asks as if no run had ever been metered."""
    world = metered()
    federation, run_id = world.federation, world.parameters.run_id
    network = federation.payment_network
    believe_unmetered(network, run_id, 0)
    before = [but_for_the_log(bank) for bank in federation.banks]
    deviating = replace(world, parameters=unmetered(world.parameters))
    with pytest.raises(ProtocolError, match="a match that does not belong to the model"):
        match_accounts(deviating, world.account_keys, replace=True)
    assert [but_for_the_log(bank) for bank in federation.banks] == before
    assert all(bank.live_keys() == {} for bank in federation.banks)
    network.close(run_id, 1)
    with pytest.raises(ProtocolError, match="is not as the run is metered"):
        world.ask(everybody(world), ASKED)
    assert [but_for_the_log(bank) for bank in federation.banks] == before


def test_what_training_fixed_holds_whatever_a_match_says():
    """Such a match, had a bank taken it up after all, is metered all the same."""
    world = metered()
    match_accounts(world, world.account_keys, replace=True)
    for bank in world.federation.banks:
        believe_unmetered(bank, world.parameters.run_id, 1)
        assert bank.live_keys() == {}
    network, run_id = world.federation.payment_network, world.parameters.run_id
    _, messages = network.score(run_id, world.round(everybody(world), ASKED))
    query = next(one for one in map(decode, messages) if isinstance(one, ScoreQuery))
    assert query.address.table_id == "bank01@1"
    bank = world.federation.banks[0]
    with pytest.raises(ProtocolError, match="not as the run is metered"):
        bank.handle(changed(query, permutation=b""))
    replies = [decode(reply) for reply in bank.handle(encode(query))]
    assert [reply.kind for reply in replies] == ["metered-reply", "receipt"]


def test_votes_cannot_be_metered():
    world = trained_class_world(seed=5, n_banks=2)
    with pytest.raises(ParameterError):
        type(world.parameters)(
            **world.parameters.model_dump() | {"mode": "sealed", "metered": True}
        )


# Killed on the way.


def test_parts_are_kept_until_the_aggregator_has_them():
    """A bank and the payment network that are restarted send them again until the batch ends."""
    world = metered()
    network = world.federation.payment_network
    run_id = world.parameters.run_id
    batch, messages = network.score(run_id, world.round(everybody(world), ASKED))
    for message in messages:  # everything for the aggregator is lost
        if decode(message).address.receiver == "bank01":
            for reply in world.federation.banks[0].handle(message):
                if decode(reply).address.receiver == network.name:
                    more = network.handle(reply)
    for message in more:
        if decode(message).address.receiver == "bank02":
            for reply in world.federation.banks[1].handle(message):
                if decode(reply).address.receiver == network.name:
                    network.handle(reply)
    restarted = again(world, copies=False)
    restarted.federation.resume()
    found = restarted.federation.payment_network.bits(run_id, batch)
    assert np.array_equal(found, world.true_bits(everybody(world), ASKED))
