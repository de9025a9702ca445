"""Queries that no honest payment network makes.

On a run that is not metered they work, whatever a bank's limits are: those bind an honest payment
network only.  On a metered one the aggregator stops them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.class_world import trained_class_world
from tests.kit.phase import coefficients, phase, residues_of
from tests.kit.recording import changed
from tests.kit.scoring_worlds import again

from pv4fad.errors import OrderError
from pv4fad.he.circuits import linear_bound
from pv4fad.he.keys import Encryptor, Evaluator
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Sanitiser
from pv4fad.protocol.propose.state import BankPublic, OwnKeys
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.score.messages import MeteredReply, OwnPart, ScoreQuery, ScoreReply
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, Metered
from pv4fad.protocol.wire import decode
from pv4fad.store.records import Records

ASKED = AskedSet((1, 2), True)
BANK = "bank01"


def world_of(*, metered: bool, **options):
    return again(trained_class_world(seed=5, n_banks=2, metered=metered), **options)


def everybody(world):
    return np.arange(len(world.keys))


def ring_of(world) -> Ring:
    return Ring.of(world.parameters.share_ring)


def asks_for_the_key(world) -> bytes:
    """A flooded zero, and 1 more in c1: it looks like any query, and opens to the secret key."""
    ring, network = ring_of(world), world.federation.payment_network
    public = world.record(network, BankPublic, BANK).key(ring.parameters)
    flood = linear_bound(ring, 1, 2).flood
    sanitiser, evaluator = Sanitiser(public, flood), Evaluator(public)
    query = sanitiser.flooded(Encryptor(public).zero(flood.n_primes))
    evaluator.add(query, sanitiser._frame.unit)
    return ring.dump(evaluator.switch_to(query, 1))


def true_key(world) -> np.ndarray:
    """The coefficients of the bank's secret key: what (0, 1) opens to."""
    ring = ring_of(world)
    secret = world.record(world.federation.banks[0], OwnKeys).secret_key(ring.parameters)
    unit = Sanitiser(
        world.record(world.federation.payment_network, BankPublic, BANK).key(ring.parameters),
        linear_bound(ring, 1, 2).flood,
    )._frame.unit
    return phase(unit, secret).astype(np.int64)


def query_and_part(world, asked=ASKED):
    """An honest round about all accounts: the query to the first bank, and S's part if metered."""
    network = world.federation.payment_network
    _, messages = network.score(world.parameters.run_id, world.round(everybody(world), asked))
    decoded = [decode(one) for one in messages]
    (query,) = [m for m in decoded if isinstance(m, ScoreQuery) and m.address.receiver == BANK]
    parts = [m for m in decoded if isinstance(m, OwnPart) and m.address.table_id == BANK]
    return query, parts[0] if parts else None


def test_without_metering_one_crafted_query_reads_the_share_key_within_all_limits():
    world = world_of(metered=False, layers_per_day=1)
    query, _ = query_and_part(world)
    crafted = changed(query, ciphertexts=(asks_for_the_key(world), *query.ciphertexts[1:]))
    (reply,) = map(decode, world.federation.banks[0].handle(crafted))
    assert isinstance(reply, ScoreReply)
    ring = ring_of(world)
    found = coefficients(ring, reply.residues[: ring.degree].astype(np.uint64))
    assert set(np.unique(found)) == {-1, 0, 1}
    assert np.array_equal(found, true_key(world))


def metered_answer(world, query: bytes, part: bytes):
    """What comes back to the payment network."""
    reply = next(
        one
        for one in world.federation.banks[0].handle(query)
        if isinstance(decode(one), MeteredReply)
    )
    aggregator, answers = world.federation.aggregator, []
    for data in (part, reply):
        answers += [decode(one) for one in aggregator.handle(data)]
    (answer,) = [one for one in answers if one.kind in ("score-reply", "metering-stopped")]
    return answer, reply


def metered(world) -> Metered:
    """What the aggregator has noted about the bank."""
    with world.federation.aggregator.store.transaction() as tx:
        return Records(tx, world.parameters.run_id).find(Metered, BANK) or Metered()


def test_with_metering_the_same_query_is_stopped_until_a_person_at_the_bank_acts():
    world = world_of(metered=True)
    query, part = query_and_part(world)
    crafted = changed(query, ciphertexts=(asks_for_the_key(world), *query.ciphertexts[1:]))
    # The payment network sends the part of an honest query, or none at all.
    for own in (part.residues, np.zeros_like(part.residues)):
        fresh = world_of(metered=True)
        answer, _ = metered_answer(fresh, crafted, changed(part, residues=own))
        assert answer.kind == "metering-stopped"
        assert "neither 0 nor 1" in answer.reason
        assert metered(fresh) == Metered(stopped_at=DEFAULT_BUDGET.release)


@pytest.mark.parametrize("shift", [1, 2, -1])
def test_a_wrong_share_of_its_own_gains_the_payment_network_nothing(shift):
    """It shifts what comes back: a bit that it does not know would show as 2, or as t − 1."""
    world = world_of(metered=True)
    query, part = query_and_part(world)
    t = world.parameters.plain_modulus
    wrong = ((part.residues.astype(np.int64) + shift) % t).astype(np.uint32)
    answer, _ = metered_answer(world, changed(query), changed(part, residues=wrong))
    assert answer.kind == "metering-stopped"
    assert metered(world).positives == 0


def test_a_question_turned_round_counts_every_slot_as_positive():
    """1 − bit passes as a bit, and so the budget counts all slots that are not positive."""
    budget = replace(DEFAULT_BUDGET, positives_per_day=1000)
    world = world_of(metered=True, budget=budget)
    query, part = query_and_part(world, AskedSet((1, 2), False))
    ring, t = ring_of(world), world.parameters.plain_modulus
    q = np.uint64(ring.primes[0])
    negated = [(q - residues_of(ring.load(one, 1), ring)) % q for one in query.ciphertexts]
    turned = tuple(ring.dump(ring.from_residues(ring.header(1), one)) for one in negated)
    own = ((1 - part.residues.astype(np.int64)) % t).astype(np.uint32)
    crafted = changed(query, ciphertexts=turned)
    answer, _ = metered_answer(world, crafted, changed(part, residues=own))
    assert answer.kind == "metering-stopped"
    assert "budget of 1000 positive answers" in answer.reason


def test_a_batch_that_is_played_again_gets_the_stored_answer_and_nothing_new():
    world = world_of(metered=True)
    query, part = query_and_part(world)
    answer, reply = metered_answer(world, changed(query), changed(part))
    assert isinstance(answer, ScoreReply)
    spent = metered(world).positives
    assert spent > 0
    once_more, same = metered_answer(world, changed(query), changed(part))
    assert same == reply
    assert np.array_equal(once_more.residues, answer.residues)
    assert metered(world).positives == spent
    # Another query in its place would be a second one for the price of one.
    other = changed(query, ciphertexts=(asks_for_the_key(world), *query.ciphertexts[1:]))
    with pytest.raises(OrderError, match="other content"):
        world.federation.banks[0].handle(other)


def test_the_same_question_in_another_batch_is_charged_again():
    """A bank does not see what is asked, so it cannot tell an old question from a new one."""
    world = world_of(metered=True)
    accounts = everybody(world)
    positive = accounts[world.true_bits(accounts, ASKED) == 1]
    mine = np.array([k for k in positive if world.keys[k][0] == 0])[:2]
    for total in (2, 4):
        assert world.ask(mine, ASKED).tolist() == [1, 1]
        assert metered(world).positives == total
