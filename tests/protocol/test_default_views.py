"""What each party sees of the default model is what it may know: public sizes and uniform values.

Training and a round of questions.  Every check is also made with one mask or flood taken away, on
every role of ciphertext, and must then fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.kit.forest_case import UNKNOWN
from tests.kit.recording import Recording, spy_on_masks
from tests.kit.round_recording import (
    ASKED,
    BATCH,
    queries_sent,
    questions_of,
    recorded,
    world_with_noise,
)
from tests.kit.scoring_worlds import again
from tests.kit.views import (
    TRAINING_MASKS,
    about_broadcast,
    answers_of_one_bank,
    check_masks_are_new_and_bound,
    difference_ciphertexts,
    distance_ciphertexts,
    envelope,
    hashes_of,
    indicator_ciphertexts,
    looks_uniform,
    made_anew_looks_uniform,
    no_flood,
    no_mask,
    noise_bits_before_flooding,
    noise_is_the_flood,
    noisy_sums,
    of_kind,
    opened_differences,
    opened_distances,
    opened_indicators,
    opened_products,
    opened_queries,
    opened_values,
    product_ciphertexts,
    query_ciphertexts,
    returned_ciphertexts,
    sent_with,
    sums_per_bank,
    value_ciphertexts,
)

import pv4fad.he.sanitise
import pv4fad.protocol.count.bank
import pv4fad.protocol.count.steps
import pv4fad.protocol.match.steps
import pv4fad.protocol.score.bank
import pv4fad.protocol.score.steps
from pv4fad.audit.stamp import STAMP_BYTES
from pv4fad.protocol.count.messages import MaskedProducts, NoisyCounts, NoisySums
from pv4fad.protocol.count.state import SumsSoFar
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
)
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.wire import Message, decode
from pv4fad.store.records import Records


@pytest.fixture(scope="module")
def run() -> Recording:
    return recorded(1)


def test_the_run_that_is_looked_at_gives_the_right_counts(run):
    shape = run.world.true_counts().shape
    expected = run.world.true_counts() + run.injected.reshape(shape)
    assert np.array_equal(run.world.counts(), expected)


def test_kinds_order_and_sizes_of_messages_do_not_depend_on_anybodys_data(run):
    """Another seed: other accounts, classes, cells, noise and questions."""
    other, _ = world_with_noise(2)
    assert other.records != run.world.records
    seen: list[tuple] = []

    def note(message: Message, size: int) -> None:
        seen.append(envelope(message, size))

    other.train(note)
    other.ask(np.arange(3), AskedSet((2,), False), note)
    assert any(kind == "score-reply" for kind, *_ in seen)
    sent = [envelope(event.message, len(event.data) + STAMP_BYTES) for event in run.events]
    assert seen == sent


# What a party opens, as rows of residues.


def answered(run, answers):
    """R of every slot, as it leaves the bank."""
    return of_kind(answers, ScoreReply).residues[np.newaxis]


def bits_of_one_bank(run, answers):
    """Of the broadcast table: its own part of the bits, and nothing but masks if all is well."""
    return answers_of_one_bank(run, answers, queries_sent(run), BATCH)[np.newaxis]


VIEWS = {
    opened_values: lambda run: sent_with(run, MaskedValues),
    opened_distances: lambda run: sent_with(run, MaskedDistances),
    opened_differences: lambda run: sent_with(run, MaskedDifferences),
    opened_indicators: lambda run: sent_with(run, BlindedIndicators),
    opened_products: lambda run: sent_with(run, MaskedProducts),
    noisy_sums: lambda run: sent_with(run, NoisySums),
    sums_per_bank: lambda run: sent_with(run, NoisySums),
    opened_queries: queries_sent,
    answered: lambda run: sent_with(run, ScoreReply),
    bits_of_one_bank: about_broadcast,
}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_what_a_party_can_open_is_uniform(run, view):
    events = VIEWS[view](run)
    assert events
    assert looks_uniform(run, view, *(event.answers() for event in events))


def test_all_banks_together_give_the_noisy_counts_and_no_more(run):
    """Σ_j (V_j + p_j) is what training is for: the check above is about the right values."""
    t = np.uint64(run.world.parameters.plain_modulus)
    per_bank = [sums_per_bank(run, event.answers()) for event in sent_with(run, NoisySums)]
    total = (sum(per_bank) % t).ravel()
    assert np.array_equal(run.world.parameters.signed(total), run.world.counts().ravel())


def test_all_banks_together_give_the_bits_and_no_more(run):
    t = run.world.parameters.plain_modulus
    parts = [bits_of_one_bank(run, event.answers()) for event in about_broadcast(run)]
    assert len(parts) == 2
    total = sum(parts) % t
    asked = questions_of(run.world)
    unknown = [one for one in asked if run.world.keys[one][0] == UNKNOWN]
    assert total.max() == 1
    assert total.sum() == run.world.true_bits(np.array(unknown), ASKED).sum()


# The noise of what a key holder gets back: every role of ciphertext.

RETURNED = {
    value_ciphertexts: (lambda run: sent_with(run, MaskedValues), "values"),
    distance_ciphertexts: (lambda run: sent_with(run, MaskedDistances), "distances"),
    difference_ciphertexts: (lambda run: sent_with(run, MaskedDifferences), "distances"),
    indicator_ciphertexts: (lambda run: sent_with(run, BlindedIndicators), "indicators"),
    product_ciphertexts: (lambda run: sent_with(run, MaskedProducts), "linear"),
    query_ciphertexts: (queries_sent, "linear"),
}


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_the_noise_of_what_a_key_holder_gets_back_is_the_flood(run, returned):
    """Of every ciphertext: all atoms, all sums, all blocks."""
    events, circuit = RETURNED[returned]
    for event in events(run):
        ciphertexts, secret = returned(run, event.answers())
        assert noise_is_the_flood(run, ciphertexts, secret, circuit)


def test_no_ciphertext_that_goes_back_to_a_key_holder_is_left_out(run):
    looked_at = (
        ciphertext
        for returned, (events, _) in RETURNED.items()
        for event in events(run)
        for ciphertext in returned(run, event.answers())[0]
    )
    assert hashes_of(looked_at) == returned_ciphertexts(run)


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_the_noise_before_the_flood_is_below_its_bound(run, monkeypatch, returned):
    events, circuit = RETURNED[returned]
    measured = noise_bits_before_flooding(monkeypatch, returned, run, events(run)[-1])
    assert max(measured) < run.world.parameters.bounds[circuit].noise_bits


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_without_the_flood_the_check_above_fails(run, monkeypatch, returned):
    """For any of the ciphertexts: each is noticed by itself."""
    events, circuit = RETURNED[returned]
    event = events(run)[-1]
    monkeypatch.setattr(pv4fad.he.sanitise, "flood_residues", no_flood)
    ciphertexts, secret = returned(run, event.replayed())
    for one in ciphertexts:
        assert not noise_is_the_flood(run, (one,), secret, circuit)


# Without a mask.


def no_fresh(ring, rows):
    return np.zeros((rows, ring.degree), np.uint64)


MASKS = TRAINING_MASKS | {
    "ρ of the questions": (pv4fad.protocol.score.steps, "_fresh", no_fresh, opened_queries),
    "pairwise masks of the answers": (
        pv4fad.protocol.score.bank,
        "pairwise_mask",
        no_mask,
        bits_of_one_bank,
    ),
}


@pytest.mark.parametrize("mask", MASKS)
def test_without_this_mask_the_check_above_fails(run, monkeypatch, mask):
    module, name, nothing, view = MASKS[mask]
    event = VIEWS[view](run)[-1]
    monkeypatch.setattr(module, name, nothing)
    assert not looks_uniform(run, view, event.replayed())


@pytest.mark.parametrize(
    "view",
    [
        opened_values,
        opened_distances,
        opened_differences,
        opened_indicators,
        opened_products,
        opened_queries,
    ],
    ids=lambda view: view.__name__,
)
def test_an_answer_that_is_made_anew_has_new_masks(run, view):
    """From the same state; what was stored before is sent again as it is, and never made anew."""
    assert made_anew_looks_uniform(run, view, VIEWS[view](run)[-1])


def test_no_mask_of_answers_is_used_twice_and_all_are_bound_to_the_parameters(run, monkeypatch):
    """Two answers under one mask would tell their difference."""
    world = again(run.world)
    made = spy_on_masks(monkeypatch, pv4fad.protocol.score.bank)
    for _ in range(2):
        world.ask(questions_of(world), ASKED)
    assert check_masks_are_new_and_bound(world, made) == 2


def test_the_aggregator_sends_nothing_on_before_all_banks_are_in(run):
    for kind in (NoisySums, ScoreReply):
        *early, last = run.of(kind, "aggregator")
        assert len(early) == 1
        assert all(event.replies == [] for event in early)
        assert [one.address.receiver for one in last.answers()] == ["payment-network"]


def test_the_aggregator_keeps_the_sum_in_no_record_but_its_message(run):
    """Which it may have to send again: nothing tells it that the message has arrived."""
    assert run.of(NoisyCounts)
    aggregator = run.world.federation.aggregator
    with aggregator.store.transaction() as tx:
        records = Records(tx, run.world.parameters.run_id)
        assert records.has(Proposal)
        assert not records.has(SumsSoFar)
    journal = [decode(one).kind for one in aggregator.unanswered()]
    assert journal.count("noisy-counts") == 1
