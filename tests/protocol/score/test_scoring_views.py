"""What each party sees of sealed votes is what it may know: public sizes and uniform values.

Every check is also made with one mask taken away, and must then fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from tests.kit.recording import Recording, record, spy_on_masks
from tests.kit.scoring_worlds import again, expected_votes, rows_of, trained
from tests.kit.views import (
    about_broadcast,
    all_of,
    answers_of_one_bank,
    bank_key,
    check_masks_are_new_and_bound,
    envelope,
    hashes_of,
    looks_uniform,
    made_anew_looks_uniform,
    no_flood,
    no_mask,
    no_residues,
    noise_bits_before_flooding,
    noise_is_the_flood,
    of_kind,
    opened,
    opened_queries,
    query_ciphertexts,
    returned_ciphertexts,
    sent_with,
)
from tests.kit.world import World, scoring_input

import pv4fad.he.sanitise
import pv4fad.protocol.score.bank
import pv4fad.protocol.score.steps
from pv4fad.forest.votes import reached_groups
from pv4fad.he.keys import Decryptor
from pv4fad.he.ring import Ring
from pv4fad.protocol.match.network import ShareBlocks
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import BlindedSetShares, ScoreQuery, ScoreReply
from pv4fad.protocol.score.state import OpenedSets
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


def set_share_ciphertexts(run, answers):
    message = of_kind(answers, BlindedSetShares)
    return message.ciphertexts, bank_key(run, message.address.receiver)


def opened_set_shares(run, answers):
    """v_c, at a bank."""
    return opened(*set_share_ciphertexts(run, answers))


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
    """Of the broadcast table: its own part of the votes, and nothing but masks if all is well."""
    asked = [event for event in run.events if event.receiver.name == PAYMENT_NETWORK]
    return answers_of_one_bank(run, answers, asked, BATCH).reshape(LAYERS, -1)


VIEWS = {
    opened_set_shares: BlindedSetShares,
    set_masks: BlindedSetShares,
    opened_queries: ScoreQuery,
    bank_answers: ScoreQuery,
    answered: ScoreReply,
}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_what_a_party_can_open_is_uniform(run, view):
    assert looks_uniform(run, view, *all_of(run, VIEWS[view]))


def test_the_votes_of_one_bank_are_uniform(run):
    assert looks_uniform(
        run, votes_of_one_bank, *(event.answers() for event in about_broadcast(run))
    )


def test_all_banks_together_give_the_coalition_the_votes_and_no_more(run):
    """Σ_j is what S may learn of a broadcast table: the check above is about the right values."""
    t, n_trees = run.world.parameters.plain_modulus, run.world.case.forest.sizes.n_trees
    parts = [votes_of_one_bank(run, event.answers()) for event in about_broadcast(run)]
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
    """Of every ciphertext: all y and Z of all layers, blocks and tables."""
    kind, circuit = RETURNED[returned]
    for message in all_of(run, kind):
        assert noise_is_the_flood(run, *returned(run, message), circuit)


def test_no_ciphertext_that_goes_back_to_a_key_holder_is_left_out(run):
    looked_at = (
        ciphertext
        for returned, (kind, _) in RETURNED.items()
        for message in all_of(run, kind)
        for ciphertext in returned(run, message)[0]
    )
    assert hashes_of(looked_at) == returned_ciphertexts(run)


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_the_noise_before_the_flood_is_below_its_bound(run, monkeypatch, returned):
    kind, circuit = RETURNED[returned]
    measured = noise_bits_before_flooding(monkeypatch, returned, run, sent_with(run, kind)[-1])
    assert max(measured) < run.world.parameters.bounds[circuit].noise_bits


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
    event = (about_broadcast(run) if view is votes_of_one_bank else sent_with(run, VIEWS[view]))[-1]
    monkeypatch.setattr(module, name, nothing)
    assert not looks_uniform(run, view, event.replayed())


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_without_the_flood_the_check_above_fails(run, monkeypatch, returned):
    """For any of the ciphertexts: each is noticed by itself."""
    kind, circuit = RETURNED[returned]
    event = sent_with(run, kind)[-1]
    monkeypatch.setattr(pv4fad.he.sanitise, "flood_residues", no_flood)
    ciphertexts, secret = returned(run, event.replayed())
    for one in ciphertexts:
        assert not noise_is_the_flood(run, (one,), secret, circuit)


def test_a_query_that_is_made_anew_has_new_masks(run):
    """From the same state; what was stored before is sent again as it is, and never made anew."""
    assert made_anew_looks_uniform(run, opened_queries, sent_with(run, ScoreQuery)[-1])


def test_no_mask_is_used_twice_and_all_are_bound_to_the_parameters(monkeypatch):
    """Two answers under one mask would tell their difference."""
    world = again(trained(seed=6, **SEALED))
    made = spy_on_masks(monkeypatch, pv4fad.protocol.score.bank)
    data = scoring_input(world, rows_of(world.case, few(world)))
    for _ in range(2):
        world.federation.score(world.parameters.run_id, data)
    assert check_masks_are_new_and_bound(world, made) >= 2
