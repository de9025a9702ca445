"""Private scoring equals the trusted third party: every vote of every side, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.protocol.scoring_worlds import TRAIN_ROWS, again, expected_votes, rows_of, trained
from tests.protocol.world import World, bank_records, match_accounts, scoring_input

from pv4fad.data.schema import FLAG_CODES
from pv4fad.errors import BudgetError, DataError, OrderError

# Mixed: a table for each bank, and one that all banks get.
WORLDS = {
    "sealed": {"seed": 6, "n_banks": 2, "mode": "mixed", "n_sets": 2, "model": "sealed"},
    "released": {"seed": 7, "n_banks": 3, "mode": "routed", "model": "released"},
}


@pytest.fixture(params=WORLDS)
def world(request) -> World:
    """Knows the accounts of the first rows only."""
    return again(trained(**WORLDS[request.param]))


@pytest.fixture
def one_bank() -> World:
    return again(trained(seed=1, n_banks=1, mode="routed", model="released"))


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
    """Every account gets another flag and another slot value."""
    n_flags = len(FLAG_CODES)
    return {
        key: ((flag + 1) % n_flags, 2 * n_flags + 1 - slot)
        for key, (flag, slot) in world.case.records.items()
    }


def test_after_a_bank_changed_its_records_a_new_match_tells():
    """And everybody has new keys, and has forgotten the old ones.  Sealed: labels are sent anew."""
    world = again(trained(**WORLDS["sealed"]))
    case = rows_of(world.case, slice(0, 12))
    keys = scoring_input(world, case).keys
    before = expected_votes(world, case)
    case = replace(case, records=changed_records(world))
    for bank, party in enumerate(world.federation.banks):
        party.replace_records(replace(bank_records(case, bank), fingerprint="version 2"))
    with pytest.raises(DataError, match="bank01: the account file is not the one"):
        match_accounts(world, keys, replace=False)
    world.federation.payment_network.close(world.parameters.run_id, 1)
    old_keys = [world.secret_key_of(bank) for bank in world.federation.banks]
    match_accounts(world, keys, replace=True)
    expected = expected_votes(world, case)
    assert not np.array_equal(expected, before)
    assert np.array_equal(score(world, case), expected)
    new_keys = [world.secret_key_of(bank) for bank in world.federation.banks]
    assert not set(old_keys) & set(new_keys)
    for bank, key in zip(world.federation.banks, old_keys, strict=True):
        assert key not in bank.store._records.values()


def records(party) -> set[str]:
    """The names of a party's records, without its journal."""
    return set(party.store.keys("run/"))


def test_old_joins_and_keys_are_forgotten(one_bank):
    federation, run_id = one_bank.federation, one_bank.parameters.run_id
    network, (bank,) = federation.payment_network, federation.banks
    keys = scoring_input(one_bank, one_bank.case).keys
    first, second = keys[: len(keys) // 2], keys
    at_first = records(network), records(bank)
    secrets = {name.rsplit("/", 1)[-1] for name in records(network) | records(bank)}
    assert {"secret key", "own secret key"} <= secrets
    match_accounts(one_bank, first, replace=False)
    assert records(network) > at_first[0]
    match_accounts(one_bank, second, replace=False)
    # The second delta took the place of the first.
    for party in (network, bank):
        assert not party.store.keys(f"run/{run_id}/epoch/1/")
        assert party.store.keys(f"run/{run_id}/epoch/2/")
    match_accounts(one_bank, second, replace=True)
    for party in (network, bank):
        assert not party.store.keys(f"run/{run_id}/epoch/2/")
        left = {name.removeprefix(f"run/{run_id}/").split("/")[0] for name in records(party)}
        assert not left & {
            "secret key", "own secret key", "public key", "own public key", "relinearisation key",
            "table", "ids", "opened", "shares", "opened sets",
        }  # fmt: skip
    known = rows_of(one_bank.case, slice(0, TRAIN_ROWS))
    assert np.array_equal(score(one_bank, known), expected_votes(one_bank, known))


def test_batches_leave_nothing_behind(one_bank):
    federation = one_bank.federation
    known = rows_of(one_bank.case, slice(0, TRAIN_ROWS))
    parties = (federation.payment_network, *federation.banks)
    score(one_bank, known)
    after_one = [party.store.keys() for party in parties]
    score(one_bank, known)
    after_two = [party.store.keys() for party in parties]
    assert [len(names) for names in after_two] == [len(names) for names in after_one]
    assert sum(map(len, federation.payment_network.unanswered())) < 10**6  # of training


def test_one_match_or_batch_at_a_time(one_bank):
    network, run_id = one_bank.federation.payment_network, one_bank.parameters.run_id
    data = scoring_input(one_bank, rows_of(one_bank.case, slice(0, 5)))
    batch, queries = network.score(run_id, data)
    with pytest.raises(OrderError, match=f"match or batch {batch} is not over"):
        network.score(run_id, data)
    network.close(run_id, batch)
    votes = one_bank.federation.score(run_id, data)
    with pytest.raises(OrderError, match=f"batch {batch} is over"):
        one_bank.federation.deliver(queries)
    assert len(votes) == 5


def test_a_bank_limits_the_layers_it_answers_per_day(one_bank):
    """One count for a table and for the tables that extend or replace it."""
    known = rows_of(one_bank.case, slice(0, TRAIN_ROWS))
    data = scoring_input(one_bank, known)
    run_id = one_bank.parameters.run_id
    batch, _ = again(one_bank).federation.payment_network.score(run_id, data)
    other = again(one_bank)
    other.federation.payment_network.score(run_id, data)
    layers = other.federation.payment_network.batch_size(run_id, batch).layers
    limited = again(one_bank, layers_per_day=2 * layers - 1)
    limited.federation.score(run_id, data)
    match_accounts(limited, data.keys, replace=True)
    with pytest.raises(BudgetError, match=f"bank01 answers at most {2 * layers - 1} layers"):
        limited.federation.score(run_id, data)
    # Its limit raised, or on another day, the bank answers what was asked.
    generous = again(limited, copies=False)
    generous.federation.resume()
    network = generous.federation.payment_network
    assert np.array_equal(network.votes(run_id, 3), expected_votes(one_bank, known))
