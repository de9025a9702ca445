"""What each party sees in training is what it may know: public sizes and uniform values.

Every check is also made on a run from which one mask was taken away, and must then fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.kit.recording import Recording, kinds_kept, recorded_run, small_world, spy_on_masks
from tests.kit.uniformity import is_uniform
from tests.kit.views import (
    TRAINING_MASKS,
    all_of,
    difference_ciphertexts,
    distance_ciphertexts,
    envelope,
    hashes_of,
    indicator_ciphertexts,
    looks_uniform,
    made_anew_looks_uniform,
    network_key,
    no_flood,
    no_residues,
    noise_bits_before_flooding,
    noise_is_the_flood,
    noisy_sums,
    of_kind,
    opened,
    opened_differences,
    opened_distances,
    opened_indicators,
    opened_products,
    opened_values,
    product_ciphertexts,
    returned_ciphertexts,
    sent_with,
    sums_per_bank,
    value_ciphertexts,
)
from tests.kit.world import check_equal_to_the_trusted_third_party

import pv4fad.he.sanitise
import pv4fad.protocol.compare.aggregator
import pv4fad.protocol.count.bank
import pv4fad.protocol.count.steps
import pv4fad.protocol.match.steps
from pv4fad.audit.stamp import STAMP_BYTES
from pv4fad.protocol.compare.messages import BlindedSums, LabelMasks, SharedLabels
from pv4fad.protocol.compare.state import Blinding, LabelShare, MaskBlock, MaskedLeaves
from pv4fad.protocol.compare.steps import masked_leaves
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.count.state import OwnSums, SumsSoFar
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
)
from pv4fad.protocol.parameters import digest_of
from pv4fad.protocol.propose.state import CountedAccounts
from pv4fad.protocol.state import Proposal


@pytest.fixture(scope="module")
def run() -> Recording:
    return recorded_run()


def test_the_run_that_is_looked_at_gives_the_right_model(run):
    check_equal_to_the_trusted_third_party(run.world, run.injected)


def test_kinds_order_and_sizes_of_messages_do_not_depend_on_anybodys_data(run):
    """Another seed: other transactions, trees, accounts, flags, labels and noise."""
    other, _ = small_world(seed=2)
    assert other.case.records != run.world.case.records
    assert other.case.forest.trees != run.world.case.forest.trees
    seen = []
    other.train(lambda message, size: seen.append(envelope(message, size)))
    sent = [envelope(event.message, len(event.data) + STAMP_BYTES) for event in run.events]
    assert seen == sent


# What a party opens, as rows of residues.  Each function takes the answers that carry it.


def label_ciphertexts(run, answers):
    return (of_kind(answers, SharedLabels).ciphertext,), network_key(run, "compare")


def label_share(run, answers):
    """label − b in every slot, used or not, at the payment network."""
    return opened(*label_ciphertexts(run, answers))


def masked_leaf_sums(run, answers):
    """w = D + r of every leaf, at the payment network."""
    (event,) = run.of(BlindedSums)
    p, n_path = run.before(event, OwnSums).p, run.before(event, CountedAccounts).n_path
    blinded = of_kind(answers, BlindedSums).residues
    return masked_leaves(blinded, p, n_path, run.world.parameters.plain_modulus).reshape(1, -1)


VIEWS = {
    opened_values: MaskedValues,
    opened_distances: MaskedDistances,
    opened_differences: MaskedDifferences,
    opened_indicators: BlindedIndicators,
    opened_products: MaskedProducts,
    noisy_sums: NoisySums,
    masked_leaf_sums: BlindedSums,
    label_share: SharedLabels,
    sums_per_bank: NoisySums,
}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_what_a_party_can_open_is_uniform(run, view):
    events = sent_with(run, VIEWS[view])
    assert events
    assert looks_uniform(run, view, *(event.answers() for event in events))


def test_the_label_share_of_a_bank_is_uniform_and_the_same_at_all_banks(run):
    shares = [event.message.residues for event in run.of(LabelMasks)]
    assert len(shares) == 2
    assert np.array_equal(*shares)
    assert is_uniform(shares[0], run.world.parameters.plain_modulus)


def test_all_banks_together_give_the_coalition_the_noisy_sums_and_no_more(run):
    """Σ_j (V_j + p_j) is what S + A may learn: the check above is about the right values."""
    t = run.world.parameters.plain_modulus
    per_bank = [sums_per_bank(run, event.answers()) for event in sent_with(run, NoisySums)]
    total = (sum(one.astype(np.int64) for one in per_bank).ravel() + t // 2) % t - t // 2
    counts = run.world.oracle.counts(run.world.pairs)[:, :-1].ravel()
    assert np.array_equal(total, counts + run.injected)


def test_no_bank_receives_the_same_masked_values_as_another(run):
    first, second = (event.message.residues for event in run.of(NoisySums))
    t = run.world.parameters.plain_modulus
    assert is_uniform((first + np.uint64(t) - second) % np.uint64(t), t)


# The noise of what a key holder gets back.

RETURNED = {
    value_ciphertexts: (MaskedValues, "values"),
    distance_ciphertexts: (MaskedDistances, "distances"),
    difference_ciphertexts: (MaskedDifferences, "distances"),
    indicator_ciphertexts: (BlindedIndicators, "indicators"),
    product_ciphertexts: (MaskedProducts, "linear"),
    label_ciphertexts: (SharedLabels, "compare"),
}


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_the_noise_of_what_a_key_holder_gets_back_is_the_flood(run, returned):
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


MASKS = TRAINING_MASKS | {
    "r of the comparison": (
        pv4fad.protocol.compare.aggregator,
        "secret_residues",
        no_residues,
        masked_leaf_sums,
    ),
    "b of the labels": (
        pv4fad.protocol.compare.aggregator,
        "secret_residues",
        no_residues,
        label_share,
    ),
}


@pytest.mark.parametrize("mask", MASKS)
def test_without_this_mask_the_check_above_fails(run, monkeypatch, mask):
    module, name, nothing, view = MASKS[mask]
    event = sent_with(run, VIEWS[view])[-1]
    monkeypatch.setattr(module, name, nothing)
    assert not looks_uniform(run, view, event.replayed())


@pytest.mark.parametrize("returned", RETURNED, ids=lambda one: one.__name__)
def test_without_the_flood_the_check_above_fails(run, monkeypatch, returned):
    kind, circuit = RETURNED[returned]
    event = sent_with(run, kind)[-1]
    monkeypatch.setattr(pv4fad.he.sanitise, "flood_residues", no_flood)
    ciphertexts, secret = returned(run, event.replayed())
    for one in ciphertexts:
        assert not noise_is_the_flood(run, (one,), secret, circuit)


@pytest.mark.parametrize(
    "view",
    [
        opened_values,
        opened_distances,
        opened_differences,
        opened_indicators,
        opened_products,
        masked_leaf_sums,
        label_share,
    ],
    ids=lambda view: view.__name__,
)
def test_an_answer_that_is_made_anew_has_new_masks(run, view):
    """From the same state; what was stored before is sent again as it is, and never made anew."""
    assert made_anew_looks_uniform(run, view, sent_with(run, VIEWS[view])[-1])


def test_what_would_tell_sums_or_labels_together_with_another_party_is_forgotten(run):
    """An aggregator that is broken into later has nothing to add to the payment network's share."""
    federation, run_id = run.world.federation, run.world.parameters.run_id
    of_aggregator = (Proposal, SumsSoFar, Blinding, MaskBlock)
    assert kinds_kept(federation.aggregator, run_id, of_aggregator) == {Proposal}
    of_network = (LabelShare, MaskedLeaves)
    assert kinds_kept(federation.payment_network, run_id, of_network) == {LabelShare}


def test_masks_are_bound_to_the_parameters_that_a_bank_was_told(run, monkeypatch):
    """Banks that were told different things mask differently, and their sum is noise."""
    made = spy_on_masks(monkeypatch, pv4fad.protocol.count.bank)
    banks = [bank.name for bank in run.world.federation.banks]
    for bank in banks:
        assert of_kind(run.of(MaskedProducts, bank)[-1].replayed(), NoisySums)
    assert [owner for owner, _ in made] == banks
    (context,) = {context for _, context in made}
    assert digest_of(run.world.parameters) in context
