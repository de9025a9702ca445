"""Private scoring equals the trusted third party: every vote of every side, exactly."""

from dataclasses import replace

import numpy as np
import pytest
from tests.forest.conftest import Case
from tests.protocol.world import (
    MODES,
    World,
    bank_records,
    make_world,
    match_accounts,
    scoring_input,
)

from pv4fad.data.schema import FLAG_CODES
from pv4fad.errors import BudgetError, OrderError
from pv4fad.forest.trusted import TrustedThirdParty


def rows_of(case: Case, rows: slice) -> Case:
    """Some transactions of a case."""
    accounts = replace(case.accounts, key_of=case.accounts.key_of[rows])
    return replace(case, codes=case.codes[rows], accounts=accounts)


def expected_votes(world: World, case: Case) -> np.ndarray:
    """What the trusted third party says, which knows the model and the records of the case."""
    red = world.oracle.red_labels(world.oracle.counts(world.pairs))
    oracle = TrustedThirdParty(case.forest, case.atoms())
    return oracle.votes(case.codes, case.accounts.key_of, red, world.data.green_labels).sides


@pytest.mark.parametrize("model", ["sealed", "released"])
@pytest.mark.parametrize("mode", MODES)
def test_votes_of_the_training_transactions(mode, model):
    world = make_world(seed=1, n_banks=2, mode=mode, model=model)
    world.train()
    case = rows_of(world.case, slice(0, 60))
    votes = world.federation.score(world.parameters.run_id, scoring_input(world, case))
    assert votes.any()
    assert np.array_equal(votes, expected_votes(world, case))


@pytest.fixture(scope="module", params=["sealed", "released"])
def trained(request):
    """A trained world of each model, for tests that only score; routed, two banks, two sets."""
    world = make_world(seed=2, n_banks=2, mode="routed", n_sets=2, model=request.param)
    world.train()
    return world


def test_results_do_not_depend_on_the_size_of_a_batch(trained):
    run_id, case = trained.parameters.run_id, trained.case
    whole = expected_votes(trained, case)
    for rows in (slice(0, 1), slice(1, 12), slice(12, 40)):
        votes = trained.federation.score(run_id, scoring_input(trained, rows_of(case, rows)))
        assert np.array_equal(votes, whole[rows])


@pytest.mark.parametrize(("mode", "model"), [("routed", "sealed"), ("mixed", "released")])
def test_accounts_met_after_training_are_matched_and_scored(mode, model):
    world = make_world(seed=3, n_banks=2, mode=mode, model=model, train_rows=25)
    world.train()
    network, run_id = world.federation.payment_network, world.parameters.run_id
    case = rows_of(world.case, slice(20, 60))
    data = scoring_input(world, case)
    unknown = network.unknown_accounts(run_id, data.keys)
    assert 0 < len(unknown) < len(data.keys)
    with pytest.raises(OrderError, match="match them first"):
        network.score(run_id, data)
    match_accounts(world, [data.keys[i] for i in unknown], replace=False)
    assert network.unknown_accounts(run_id, data.keys) == []
    assert np.array_equal(world.federation.score(run_id, data), expected_votes(world, case))


def test_after_a_bank_changed_its_records_a_new_match_tells(trained):
    """Every account gets another flag and another slot value; new keys everywhere."""
    world, run_id = trained, trained.parameters.run_id
    case = rows_of(world.case, slice(0, 30))
    data = scoring_input(world, case)
    n_flags = len(FLAG_CODES)
    changed = {
        key: ((flag + 1) % n_flags, 2 * n_flags + 1 - slot)
        for key, (flag, slot) in world.case.records.items()
    }
    case = replace(case, records=changed)
    before = world.federation.score(run_id, data)
    for bank, party in enumerate(world.federation.banks):
        party.replace_records(bank_records(case, bank))
    assert np.array_equal(world.federation.score(run_id, data), before)  # not yet matched
    keys_before = [world.secret_key_of(bank) for bank in world.federation.banks]
    match_accounts(world, data.keys, replace=True)
    expected = expected_votes(world, case)
    assert not np.array_equal(expected, before)
    assert np.array_equal(world.federation.score(run_id, data), expected)
    keys_after = [world.secret_key_of(bank) for bank in world.federation.banks]
    assert all(a != b for a, b in zip(keys_before, keys_after, strict=True))


def test_a_batch_without_transactions_and_one_that_asks_no_bank(trained):
    run_id, case = trained.parameters.run_id, trained.case
    green_only = np.full((2, case.forest.sizes.n_trees), -1, np.int32)
    for codes in (green_only[:0], green_only):
        key_of = case.accounts.key_of[: len(codes)]
        part = replace(case, codes=codes, accounts=replace(case.accounts, key_of=key_of))
        votes = trained.federation.score(run_id, scoring_input(trained, part))
        assert votes.shape == (len(codes), 2)
        assert not votes.any()


def test_a_bank_limits_the_layers_it_answers_per_day():
    world = make_world(seed=1, n_banks=1, model="released", layers_per_day=12)
    world.train()
    data = scoring_input(world, rows_of(world.case, slice(0, 60)))
    world.federation.score(world.parameters.run_id, data)
    with pytest.raises(BudgetError, match="bank01 answers at most 12 layers per table and day"):
        world.federation.score(world.parameters.run_id, data)
