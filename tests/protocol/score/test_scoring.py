"""Votes of the paper's sealed model equal the trusted third party's: of every side, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.forest_case import N_CLASSES
from tests.kit.recording import kinds_kept
from tests.kit.scoring_worlds import TRAIN_ROWS, again, expected_votes, rows_of, trained
from tests.kit.world import (
    World,
    bank_records,
    match_accounts,
    scoring_input,
    secret_key_of,
)

from pv4fad.errors import OrderError
from pv4fad.protocol.score.inputs import AskedSet, Round
from pv4fad.protocol.score.state import EncryptedLabelShares, OpenedSets, SetMasks

# Mixed: a table for each bank, and one that all banks get.
MIXED = {"seed": 7, "n_banks": 2, "mode": "mixed", "n_sets": 2, "model": "sealed"}


@pytest.fixture
def world() -> World:
    """Knows the accounts of the first rows only."""
    return again(trained(**MIXED))


@pytest.fixture
def one_bank() -> World:
    return again(trained(seed=6, n_banks=1, mode="routed", model="sealed"))


def score(world: World, case) -> np.ndarray:
    return world.federation.score(world.parameters.run_id, scoring_input(world, case))


def test_votes_of_old_transactions_and_of_accounts_met_after_training(world):
    """Absent accounts, outsiders, unknown banks, self-transfers and several layers among them."""
    network, run_id = world.federation.payment_network, world.parameters.run_id
    case = rows_of(world.case, slice(50, 72))
    data = scoring_input(world, case)
    unknown = network.unknown_accounts(run_id, data.keys)
    assert 0 < len(unknown) < len(data.keys)
    with pytest.raises(OrderError, match="match them first"):
        network.score(run_id, data)
    match_accounts(world, [data.keys[i] for i in unknown], replace=False)
    assert network.unknown_accounts(run_id, data.keys) == []
    ordering, beneficiary = case.accounts.key_of.T
    assert (ordering == beneficiary).any()
    votes, expected = score(world, case), expected_votes(world, case)
    assert expected.any(axis=0).all()
    assert np.array_equal(votes, expected)


def test_results_do_not_depend_on_the_size_of_a_batch(world):
    known = rows_of(world.case, slice(0, TRAIN_ROWS))
    expected = expected_votes(world, known)
    for rows in (slice(0, 1), slice(1, 12)):
        assert np.array_equal(score(world, rows_of(known, rows)), expected[rows])


def test_votes_with_a_single_bank(one_bank):
    known = rows_of(one_bank.case, slice(0, TRAIN_ROWS))
    expected = expected_votes(one_bank, known)
    assert expected.any()
    assert np.array_equal(score(one_bank, known), expected)


def test_an_account_that_pays_itself_has_its_two_sides_told_apart(one_bank):
    """Both sides in one bin, in two layers, as ordering and as beneficiary account."""
    known = rows_of(one_bank.case, slice(0, TRAIN_ROWS))
    key_of = np.repeat(known.accounts.key_of[:, :1], 2, axis=1)
    known = replace(known, accounts=replace(known.accounts, key_of=key_of))
    expected = expected_votes(one_bank, known)
    assert not np.array_equal(expected[:, 0], expected[:, 1])
    assert np.array_equal(score(one_bank, known), expected)


def test_a_batch_without_transactions_and_one_that_asks_no_bank(one_bank):
    case = one_bank.case
    green_only = np.full((2, case.forest.sizes.n_trees), -1, np.int32)
    for codes in (green_only[:0], green_only):
        key_of = case.accounts.key_of[: len(codes)]
        part = replace(case, codes=codes, accounts=replace(case.accounts, key_of=key_of))
        votes = score(one_bank, part)
        assert votes.shape == (len(codes), 2)
        assert not votes.any()


def changed_records(world: World) -> dict:
    """Every account gets another class."""
    return {key: (atom + 1) % N_CLASSES for key, atom in world.case.records.items()}


def test_after_a_new_match_the_labels_are_sent_anew_under_new_keys(world):
    """A bank has changed its records; everything that served to score before is forgotten."""
    run_id = world.parameters.run_id
    case = rows_of(world.case, slice(0, 12))
    keys = scoring_input(world, case).keys
    before = expected_votes(world, case)
    assert np.array_equal(score(world, case), before)
    case = replace(case, records=changed_records(world))
    for bank, party in enumerate(world.federation.banks):
        party.replace_records(replace(bank_records(case, bank), fingerprint="version 2"))
    old_keys = [secret_key_of(bank, run_id) for bank in world.federation.banks]
    match_accounts(world, keys, replace=True)
    expected = expected_votes(world, case)
    assert not np.array_equal(expected, before)
    assert np.array_equal(score(world, case), expected)
    for bank, key in zip(world.federation.banks, old_keys, strict=True):
        assert not any(key in one for one in bank.store.snapshot().values())
        assert not kinds_kept(bank, run_id, [OpenedSets])
    network = world.federation.payment_network
    assert not kinds_kept(network, run_id, [EncryptedLabelShares, SetMasks])


def test_a_sealed_model_answers_no_questions(one_bank):
    """Whoever has sealed labels has votes; a bit would need labels that nobody knows."""
    data = scoring_input(one_bank, rows_of(one_bank.case, slice(0, 2)))
    questions = Round(data.keys[:1], (AskedSet((0,), False),), np.zeros(1, np.int64))
    with pytest.raises(OrderError, match="mode sealed is not scored in this way"):
        one_bank.federation.payment_network.score(one_bank.parameters.run_id, questions)
