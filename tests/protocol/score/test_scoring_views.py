"""What each party sees of sealed votes is what it may know: public sizes and uniform values.

Every check is also made with one mask taken away, and must then fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from tests.kit.recording import Event, Recording, record, record_in, spy_on_masks
from tests.kit.scoring_worlds import again, expected_votes, rows_of, trained
from tests.kit.uniformity import are_uniform_and_fresh
from tests.kit.views import (
    envelope,
    no_flood,
    no_mask,
    no_residues,
    noise_is_the_flood,
    of_kind,
    opened,
    sent_with,
)
from tests.kit.world import World, scoring_input

import pv4fad.he.sanitise
import pv4fad.protocol.score.bank
import pv4fad.protocol.score.steps
from pv4fad.forest.votes import reached_groups
from pv4fad.he.keys import Decryptor, SecretKey
from pv4fad.he.ring import Ring
from pv4fad.protocol.match.network import ShareBlocks
from pv4fad.protocol.parameters import digest_of
from pv4fad.protocol.propose.state import OwnKeys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import BlindedSetShares, ScoreQuery, ScoreReply
from pv4fad.protocol.score.state import OpenedSets, Totals
from pv4fad.store.records import Records

SEALED = {"n_banks": 2, "mode": "mixed", "n_sets": 2, "model": "sealed"}
LAYERS = 2
BATCH = 1  # the epoch of the first batch


def few(world: World) -> slice:
    """Transactions for which two layers are enough, on both sides of some tree."""
    case = world.case
    for start in range(60):
        part = rows_of(case, slice(start, start + 4))
        most = np.unique(part.accounts.key_of, return_counts=True)[1].max()
        asked = [(reached_groups(case.forest, part.codes, side) >= 0).any() for side in range(2)]
        if most <= LAYERS and all(asked):
            return slice(start, start + 4)
    raise AssertionError("no such transactions")


def recorded(world: World, work: Callable[[], object]) -> Recording:
    """All messages while something is done."""
    recording = Recording(world, np.zeros(0))
    record(recording)
    work()
    return recording


@cache
def recorded_scoring(seed: int) -> Recording:
    world = again(trained(seed=seed, **SEALED))
    case = rows_of(world.case, few(world))
    data = scoring_input(world, case)

    def score() -> None:
        votes = world.federation.score(world.parameters.run_id, data)
        assert np.array_equal(votes, expected_votes(world, case))

    return recorded(world, score)


@pytest.fixture(scope="module")
def run() -> Recording:
    return recorded_scoring(6)


def test_kinds_order_and_sizes_of_messages_do_not_depend_on_anybodys_data(run):
    """Another seed: other transactions, trees, accounts, flags and labels."""
    other = recorded_scoring(1)
    assert other.world.case.records != run.world.case.records
    assert other.world.case.forest.trees != run.world.case.forest.trees
    seen = [[envelope(e.message, len(e.data)) for e in one.events] for one in (run, other)]
    assert seen[0] == seen[1]


# What a party opens, as rows of residues.  Each function takes the answers that carry it.


def bank_key(run: Recording, name: str) -> SecretKey:
    (bank,) = (one for one in run.world.federation.banks if one.name == name)
    return run.world.record(bank, OwnKeys).secret_key(run.world.parameters.share_ring)


def set_share_ciphertexts(run, answers):
    message = of_kind(answers, BlindedSetShares)
    return message.ciphertexts, bank_key(run, message.address.receiver)


def query_ciphertexts(run, answers):
    message = of_kind(answers, ScoreQuery)
    return message.ciphertexts, bank_key(run, message.address.receiver)


def opened_set_shares(run, answers):
    """v_c, at a bank."""
    return opened(*set_share_ciphertexts(run, answers))


def opened_queries(run, answers):
    """y_c and Z, every slot, at a bank."""
    return opened(*query_ciphertexts(run, answers))


def set_masks(run, answers):
    """v_c − s_c: what the bank would find if it tried the set c, with the s_k that it has sent."""
    message = of_kind(answers, BlindedSetShares)
    table_id, bank = message.address.table_id, message.address.receiver
    secret, parameters = bank_key(run, bank), run.world.parameters
    ring, decryptor = Ring.of(secret.ring), Decryptor(secret)
    sets = run.world.case.forest.distinct_sets
    v = opened(*set_share_ciphertexts(run, answers))
    with run.world.federation.payment_network.store.transaction() as tx:
        records = Records(tx, parameters.run_id)
        blocks = ShareBlocks(parameters, parameters.table(table_id), bank, records)
        s = [
            np.stack(
                [
                    decryptor.decrypt(ring.load(one, ring.parameters.n_data_primes))
                    for one in blocks.of_block(block)
                ]
            )
            for block in range(len(v) // len(sets))
        ]
    s_of_sets = np.concatenate([[one[list(c)].sum(axis=0) for c in sets] for one in s])
    return (v.astype(np.int64) - s_of_sets.astype(np.int64)) % parameters.plain_modulus


def answered(run, answers):
    """R, as the bank computes it: for the aggregator if the table is broadcast."""
    return of_kind(answers, ScoreReply).residues.reshape(LAYERS, -1)


def bank_answers(run, answers):
    """R before any pairwise mask: the bank itself sees it."""
    query = of_kind(answers, ScoreQuery)
    bank, table_id = query.address.receiver, query.address.table_id
    (party,) = (one for one in run.world.federation.banks if one.name == bank)
    parameters = run.world.parameters
    v = run.world.record(party, OpenedSets, table_id).v
    t, n_sets = parameters.plain_modulus, v.shape[1]
    slots = opened(*query_ciphertexts(run, answers)).astype(np.int64)
    slots = slots.reshape(len(v), LAYERS, n_sets + 1, -1)
    y, z = slots[:, :, :-1], slots[:, :, -1]
    products = (y * v[:, np.newaxis].astype(np.int64) % t).sum(axis=2)
    return ((z - products) % t).reshape(-1, z.shape[-1])


def votes_of_one_bank(run, answers):
    """What payment network and aggregator together could compute of one bank's answers."""
    reply = of_kind(answers, ScoreReply)
    here = reply.address
    run_id, t = run.world.parameters.run_id, run.world.parameters.plain_modulus
    (asked,) = (
        event
        for event in run.events
        if event.receiver.name == PAYMENT_NETWORK
        for query in event.answers()
        if isinstance(query, ScoreQuery)
        and (query.address.receiver, query.address.table_id) == (here.sender, here.table_id)
    )

    def offsets(records: dict[str, bytes]) -> np.ndarray | int:
        found = record_in(records, run_id, Totals, here.table_id, here.index, epoch=BATCH)
        return 0 if found is None else found.totals.astype(np.int64).ravel()

    added = offsets(asked.after) - offsets(asked.before)
    return ((added + reply.residues.astype(np.int64)) % t).reshape(LAYERS, -1)


def of_broadcast(events: list[Event]) -> list[Event]:
    return [e for e in events if e.message.address.table_id == "broadcast"]


def to_aggregator(run) -> list[Event]:
    """Where a bank answers about the broadcast table."""
    return of_broadcast(run.of(ScoreQuery))


VIEWS = {
    opened_set_shares: lambda run: sent_with(run, BlindedSetShares),
    set_masks: lambda run: sent_with(run, BlindedSetShares),
    opened_queries: lambda run: sent_with(run, ScoreQuery),
    bank_answers: lambda run: sent_with(run, ScoreQuery),
    answered: lambda run: sent_with(run, ScoreReply),
    votes_of_one_bank: to_aggregator,
}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_what_a_party_can_open_is_uniform(run, view):
    events = VIEWS[view](run)
    assert events
    for event in events:
        rows = view(run, event.answers())
        assert are_uniform_and_fresh(rows, run.world.parameters.plain_modulus)


def test_all_banks_together_give_the_coalition_the_votes_and_no_more(run):
    """Σ_j is what S may learn of a broadcast table: the check above is about the right values."""
    t, n_trees = run.world.parameters.plain_modulus, run.world.case.forest.sizes.n_trees
    parts = [votes_of_one_bank(run, event.answers()) for event in to_aggregator(run)]
    assert len(parts) == 2
    total = sum(parts) % t
    assert total.max() <= n_trees
    assert np.count_nonzero(total) <= 8  # four transactions, two sides; all other slots are unused


# The noise of what a key holder gets back.

RETURNED = {
    set_share_ciphertexts: (BlindedSetShares, "linear"),
    query_ciphertexts: (ScoreQuery, "sealed"),
}


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_the_noise_of_what_a_key_holder_gets_back_is_the_flood(run, returned):
    kind, circuit = RETURNED[returned]
    event = sent_with(run, kind)[0]
    assert noise_is_the_flood(run, *returned(run, event.answers()), circuit)


# Without a mask.


def without(rows_of_mask: Callable[[int], bool]) -> Callable[..., np.ndarray]:
    """Fresh residues, but for one mask, which is told from the others by its number of rows."""
    fresh = pv4fad.protocol.score.steps._fresh

    def some(ring: Ring, rows: int) -> np.ndarray:
        drawn = fresh(ring, rows)
        return np.zeros_like(drawn) if rows_of_mask(rows) else drawn

    return some


MASKS = {
    "n of the sets": (pv4fad.protocol.score.steps, "secret_residues", no_residues, set_masks),
    "m of the labels": (
        pv4fad.protocol.score.steps,
        "_fresh",
        without(lambda rows: rows != LAYERS),
        opened_queries,
    ),
    "ρ of the answers": (
        pv4fad.protocol.score.steps,
        "_fresh",
        without(lambda rows: rows == LAYERS),
        bank_answers,
    ),
    "pairwise masks": (pv4fad.protocol.score.bank, "pairwise_mask", no_mask, votes_of_one_bank),
}


def test_the_masks_of_a_query_differ_in_their_number_of_rows(run):
    assert len(run.world.case.forest.distinct_sets) != LAYERS


@pytest.mark.parametrize("mask", MASKS)
def test_without_this_mask_the_check_above_fails(run, monkeypatch, mask):
    module, name, nothing, view = MASKS[mask]
    event = VIEWS[view](run)[-1]
    monkeypatch.setattr(module, name, nothing)
    rows = view(run, event.replayed())
    assert not are_uniform_and_fresh(rows, run.world.parameters.plain_modulus)


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_without_the_flood_the_check_above_fails(run, monkeypatch, returned):
    kind, circuit = RETURNED[returned]
    event = sent_with(run, kind)[-1]
    monkeypatch.setattr(pv4fad.he.sanitise, "flood_residues", no_flood)
    assert not noise_is_the_flood(run, *returned(run, event.replayed()), circuit)


def test_a_query_that_is_made_anew_has_new_masks(run):
    """From the same state; what was stored before is sent again as it is, and never made anew."""
    event = sent_with(run, ScoreQuery)[-1]
    both = (opened_queries(run, answers)[:1] for answers in (event.answers(), event.replayed()))
    assert are_uniform_and_fresh(np.concatenate(list(both)), run.world.parameters.plain_modulus)


def test_no_mask_is_used_twice_and_all_are_bound_to_the_parameters(monkeypatch):
    """Two answers under one mask would tell their difference."""
    world = again(trained(seed=6, **SEALED))
    made = spy_on_masks(monkeypatch, pv4fad.protocol.score.bank)
    data = scoring_input(world, rows_of(world.case, few(world)))
    for _ in range(2):
        world.federation.score(world.parameters.run_id, data)
    by_bank = {
        bank.name: [context for owner, context in made if owner == bank.name]
        for bank in world.federation.banks
    }
    contexts, *others = by_bank.values()
    assert len(set(contexts)) == len(contexts) >= 2
    assert all(one == contexts for one in others)
    assert all(digest_of(world.parameters) in context for context in contexts)
