"""The oracle counts like a plain loop, and what the payment network prepares leads to its values.

The private protocol computes N_c = Σ d·I_c and vote = P_0 + Σ I_c·P_c with I_c shared.  Here I_c is
in the clear, so these tests check everything about counting and scoring except the cryptography.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pv4fad.forest.pairs import CountConfig, choose_pairs, green_labels, group_counts
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.forest.votes import predictions, reached_groups, vote_parts

MODULUS = 65537
CASES = [(seed, n_sets, n_banks) for seed in range(4) for n_sets in (1, 2) for n_banks in (1, 2, 7)]


def prepared(make_case, seed, n_sets, n_banks, weights=(1, 2)):
    case = make_case(seed, n_sets=n_sets, n_banks=n_banks)
    config = CountConfig(bound=5, class_weights=weights)
    rng = np.random.default_rng(seed)
    pairs = choose_pairs(
        case.forest, case.codes, case.labels, case.accounts, config=config, rng=rng
    )
    return case, pairs, TrustedThirdParty(case.forest, case.atoms())


def branch(group, atom):
    """The branch of one account, as the protocol defines it."""
    for index, one_set in enumerate(group.sets):
        if atom in one_set:
            return index
    return len(group.sets)


def indicators(case):
    """I_c of every key and distinct set, (n_keys, n_distinct_sets): what the join shares."""
    atoms = case.atoms()
    return np.array(
        [[int(row in one_set) for one_set in case.forest.distinct_sets]
         for row in atoms.tolist()]
    )  # fmt: skip


@pytest.mark.parametrize(("seed", "n_sets", "n_banks"), CASES)
def test_counts_labels_and_votes_are_those_of_a_loop_over_transactions(
    make_case, seed, n_sets, n_banks
):
    case, pairs, ttp = prepared(make_case, seed, n_sets, n_banks)
    groups, atoms = case.forest.groups, case.atoms().tolist()
    counted = Counter()
    for group, key, weight in zip(pairs.group, pairs.key, pairs.weight, strict=True):
        counted[group, branch(groups[group], atoms[key])] += weight
    counts = ttp.counts(pairs)
    assert {leaf: n for leaf, n in np.ndenumerate(counts) if n} == {
        leaf: n for leaf, n in counted.items() if n
    }

    balance = Counter()
    for row, label in zip(case.codes.tolist(), case.labels, strict=True):
        for code in row:
            balance[code] += 2 if label else -1
    green = ttp.green_labels(case.codes, case.labels, (1, 2))
    assert green.tolist() == [int(balance[-1 - leaf] > 0) for leaf in range(case.forest.n_green)]

    votes = ttp.votes(case.codes, case.accounts.key_of, ttp.red_labels(counts), green)
    for number, row in enumerate(case.codes.tolist()):
        expected = [0, 0, 0]
        for code in row:
            if code < 0:
                expected[2] += int(balance[code] > 0)
            else:
                side = groups[code].side
                key = case.accounts.key_of[number, side]
                expected[side] += int(counted[code, branch(groups[code], atoms[key])] > 0)
        assert [*votes.sides[number], votes.green[number]] == expected
        assert votes.total[number] == sum(expected)


@pytest.mark.parametrize(("seed", "n_sets", "n_banks"), CASES)
def test_sums_over_accounts_are_the_counts_of_the_trusted_third_party(
    make_case, seed, n_sets, n_banks
):
    case, pairs, ttp = prepared(make_case, seed, n_sets, n_banks)
    counted = group_counts(case.forest, pairs, case.accounts.n_keys)
    inside = indicators(case)
    expected = ttp.counts(pairs)
    assert np.abs(expected).sum() > 0
    for group in range(case.forest.sizes.n_groups):
        keys, weights = counted.of_group(group)
        assert len(np.unique(keys)) == len(keys)
        sums = weights @ inside[keys][:, case.forest.set_index[group]]
        assert sums.tolist() == expected[group, :-1].tolist()
        assert counted.n_path[group] - sums.sum() == expected[group, -1]


@pytest.mark.parametrize(("seed", "n_sets", "n_banks"), CASES)
def test_the_algebra_of_scoring_gives_the_votes_of_the_trusted_third_party(
    make_case, seed, n_sets, n_banks
):
    case, pairs, ttp = prepared(make_case, seed, n_sets, n_banks)
    rng = np.random.default_rng(seed)
    red = ttp.red_labels(ttp.counts(pairs))
    green = green_labels(case.forest, case.codes, case.labels, (1, 2))
    assert np.array_equal(green, ttp.green_labels(case.codes, case.labels, (1, 2)))
    votes = ttp.votes(case.codes, case.accounts.key_of, red, green)

    banks_share = rng.integers(MODULUS, size=case.forest.sizes.n_leaves)
    own_share = (red.ravel() - banks_share) % MODULUS
    inside = indicators(case)
    for side in range(2):
        reached = reached_groups(case.forest, case.codes, side)
        own = vote_parts(case.forest, reached, own_share, MODULUS)
        banks = vote_parts(case.forest, reached, banks_share, MODULUS)
        key = case.accounts.key_of[:, side]
        vote = own.rest + banks.rest + (inside[key] * (own.sets + banks.sets)).sum(axis=1)
        assert np.array_equal(vote % MODULUS, votes.sides[:, side])
    assert votes.total.max() <= case.forest.sizes.n_trees
    assert votes.sides.sum() > 0


def test_noise_moves_each_set_by_its_own_draw_and_the_rest_by_their_negated_sum(make_case):
    case, pairs, ttp = prepared(make_case, 1, n_sets=2, n_banks=3)
    counts = ttp.counts(pairs)
    noise = np.random.default_rng(0).integers(-6, 7, case.forest.sizes.n_sums)
    labels = ttp.red_labels(counts, noise)
    for group, (first, second, rest) in enumerate(counts.tolist()):
        one, two = noise[2 * group], noise[2 * group + 1]
        expected = [first + one > 0, second + two > 0, rest - one - two > 0]
        assert labels[group].tolist() == [int(positive) for positive in expected]
    assert not np.array_equal(labels, ttp.red_labels(counts))


def test_a_tie_gives_label_0(make_case):
    case, _, ttp = prepared(make_case, 0, n_sets=1, n_banks=1)
    counts = np.zeros((case.forest.sizes.n_groups, 2), np.int64)
    counts[0] = [0, 1]
    assert ttp.red_labels(counts)[:2].tolist() == [[0, 1], [0, 0]]
    tied = predictions(np.array([0, 2, 3, 4]), 4)
    assert tied.label.tolist() == [0, 0, 1, 1]
    assert tied.score.tolist() == [0, 0.5, 0.75, 1]
    assert tied.confidence.tolist() == [1, 0.5, 0.75, 1]


def test_padding_sets_never_take_part_in_a_vote(make_case):
    case = make_case(2, n_sets=1, n_banks=2)
    sizes = case.forest.sizes
    wider = replace(
        sizes,
        groups_per_tree=sizes.groups_per_tree + 3,
        n_distinct_sets=sizes.n_distinct_sets + 5,
    )
    forest = replace(case.forest, sizes=wider)
    codes = forest.route(case.features)
    leaf_values = np.random.default_rng(0).integers(1, MODULUS, wider.n_leaves)
    parts = vote_parts(forest, reached_groups(forest, codes, 1), leaf_values, MODULUS)
    assert parts.sets.shape[1] == wider.n_distinct_sets
    assert parts.sets[:, : sizes.n_distinct_sets].any()
    assert not parts.sets[:, -5:].any()
