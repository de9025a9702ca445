"""Which pairs count: the account's own tree, the tested side, under-sampling, the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.pairs import (
    AccountIndex,
    CountConfig,
    choose_pairs,
    green_labels,
    group_counts,
    undersampling_rates,
)

UNBOUNDED = CountConfig(bound=1_000_000)


def pairs_of(case, config, seed=0):
    rng = np.random.default_rng(seed)
    return choose_pairs(case.forest, case.codes, case.labels, case.accounts, config=config, rng=rng)


@pytest.mark.parametrize("n_sets", [1, 2])
def test_without_a_bound_every_pair_in_its_accounts_tree_and_side_counts_once(make_case, n_sets):
    case = make_case(5, n_sets=n_sets)
    expected = set()
    for number, row in enumerate(case.codes.tolist()):
        for tree, code in enumerate(row):
            if code >= 0:
                side = case.forest.groups[code].side
                key = case.accounts.key_of[number, side]
                if case.accounts.tree_of[case.accounts.bare_of[key]] == tree:
                    weight = 1 if case.labels[number] else -1
                    expected.add((number, int(side), code, int(key), weight))
    pairs = pairs_of(case, UNBOUNDED)
    columns = (pairs.transaction, pairs.side, pairs.group, pairs.key, pairs.weight)
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(found) == len(set(found)) == len(pairs)
    assert set(found) == expected
    assert len(expected) > 30


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_no_bare_id_exceeds_the_bound_over_all_banks_and_sides(make_case, bound):
    case = make_case(3, n_transactions=400)
    pairs = pairs_of(case, CountConfig(bound=bound, class_weights=(1, min(2, bound))))
    used = np.zeros(len(case.accounts.tree_of), np.int64)
    np.add.at(used, case.accounts.bare_of[pairs.key], np.abs(pairs.weight))
    assert used.max() == bound
    counted = group_counts(case.forest, pairs, case.accounts.n_keys)
    assert np.abs(counted.weight).sum() <= used.sum()


def test_an_account_teaches_its_own_tree_only(make_case):
    case = make_case(8)
    pairs = pairs_of(case, UNBOUNDED)
    tree = pairs.group // case.forest.sizes.groups_per_tree
    assert np.array_equal(tree, case.accounts.tree_of[case.accounts.bare_of[pairs.key]])


def test_under_sampling_thins_label_0_at_the_rate_of_the_tree_and_keeps_label_1(make_case):
    case = make_case(2, n_transactions=20_000)
    rates = (1.0, 0.25, 0.0)
    everything = pairs_of(case, UNBOUNDED)
    thinned = pairs_of(case, CountConfig(bound=1_000_000, label0_rates=rates))
    per_tree = case.forest.sizes.groups_per_tree
    for tree, rate in enumerate(rates):
        for label in (0, 1):
            before, after = (
                int(((pairs.group // per_tree == tree) & ((pairs.weight > 0) == label)).sum())
                for pairs in (everything, thinned)
            )
            assert before > 800
            expected = before * (1.0 if label else rate)
            # 5 standard deviations: a false alarm below 1e-6; a rate of 0.25 that is off by 0.08
            # is noticed with probability above 0.5 at 800 pairs, one off by 0.15 above 0.999.
            spread = 5 * np.sqrt(before * rate * (1 - rate)) if not label else 0
            assert abs(after - expected) <= spread


def test_under_sampling_rates_fall_geometrically():
    rates = undersampling_rates(3, 0.1, 0.001)
    assert rates == pytest.approx((0.1, 0.01, 0.001))
    assert undersampling_rates(36)[0] == pytest.approx(0.3)


def test_green_leaves_use_all_transactions(make_case):
    case = make_case(4)
    ones = np.zeros(case.forest.n_green, int)
    zeros = ones.copy()
    for row, label in zip(case.codes.tolist(), case.labels, strict=True):
        for code in row:
            if code < 0:
                (ones if label else zeros)[-1 - code] += 1
    found = green_labels(case.forest, case.codes, case.labels)
    assert np.array_equal(found, ones > zeros)
    assert set(found.tolist()) == {0, 1}


@pytest.mark.parametrize("weights", [(1, 1), (3, 2)])
def test_a_green_leaf_weighs_label_0_by_the_rate_of_its_tree(make_case, weights):
    case, rates = make_case(4), (1.0, 0.5, 0.0)
    balance = np.zeros(case.forest.n_green)
    for row, label in zip(case.codes.tolist(), case.labels, strict=True):
        for code, rate in zip(row, rates, strict=True):
            if code < 0:
                balance[-1 - code] += weights[1] if label else -weights[0] * rate
    found = green_labels(case.forest, case.codes, case.labels, weights, rates)
    assert np.array_equal(found, balance > 0)
    assert not np.array_equal(found, green_labels(case.forest, case.codes, case.labels, weights))
    with pytest.raises(ParameterError, match="2 rates for 3 trees"):
        green_labels(case.forest, case.codes, case.labels, weights, rates[:2])


def test_no_pairs_give_empty_vectors(make_case):
    case = make_case(4)
    pairs = pairs_of(case, UNBOUNDED).only(np.zeros(len(pairs_of(case, UNBOUNDED)), bool))
    counted = group_counts(case.forest, pairs, case.accounts.n_keys)
    assert not counted.n_path.any()
    assert all(len(counted.of_group(group)[0]) == 0 for group in range(len(counted.n_path)))


def test_same_seed_same_pairs_other_seed_other_pairs(make_case):
    case, config = make_case(6), CountConfig(bound=1)
    first, again, other = (pairs_of(case, config, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.transaction, again.transaction)
    assert not np.array_equal(first.transaction, other.transaction)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bound": 0}, "bound"),
        ({"bound": 1, "class_weights": (1, 2)}, "exceed bound = 1"),
        ({"bound": 1, "class_weights": (0, 1)}, "class_weights"),
        ({"bound": 1, "label0_rates": (0.5, 1.5)}, "label0_rates"),
        ({}, "bound"),
        ({"bound": 1, "epsilon": 1.0}, "epsilon"),
    ],
)
def test_impossible_count_configurations_are_refused(fields, message):
    with pytest.raises(ParameterError, match=message):
        CountConfig(**fields)


def test_inputs_that_do_not_fit_together_are_refused(make_case):
    case = make_case(1)
    with pytest.raises(ParameterError, match="2 rates for 3 trees"):
        pairs_of(case, CountConfig(bound=1, label0_rates=(1.0, 1.0)))
    with pytest.raises(DataError, match="labels must be 0 or 1"):
        green_labels(case.forest, case.codes, case.labels + 1)
    with pytest.raises(DataError, match="5 labels"):
        green_labels(case.forest, case.codes, case.labels[:5])
    accounts = case.accounts
    with pytest.raises(DataError, match="key_of"):
        AccountIndex(accounts.key_of, accounts.bare_of[:3], accounts.tree_of)
    with pytest.raises(DataError, match="one column per side"):
        AccountIndex(accounts.key_of[:, 0], accounts.bare_of, accounts.tree_of)
    one_side = AccountIndex(accounts.key_of[:, :1], accounts.bare_of, accounts.tree_of)
    with pytest.raises(DataError, match="accounts of 1 sides for 2"):
        pairs_of(replace(case, accounts=one_side), CountConfig(bound=1))
    too_many = AccountIndex(accounts.key_of, accounts.bare_of, accounts.tree_of + 3)
    with pytest.raises(ParameterError, match="tree that the forest does not have"):
        choose_pairs(
            case.forest,
            case.codes,
            case.labels,
            too_many,
            config=UNBOUNDED,
            rng=np.random.default_rng(0),
        )
