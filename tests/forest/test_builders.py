"""Random trees follow the paper's distribution, and the data decides nothing that another party
could notice."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig, RandomShape
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.tree import BankCondition, BankNode, Split, count_groups, count_leaves

NAMES = ["score", "amount", "hour"]
MILD = tuple(BankCondition(side, ((0,), (2, 3))) for side in range(2))


def some_data(seed, n=500, n_features=3):
    rng = np.random.default_rng(seed)
    features = rng.normal(seed, 1 + seed, (n, n_features)).astype(np.float32)
    features[:, -1] = rng.integers(24, size=n)
    return features


def shape_of(node):
    """A tree without the values of its cuts: what must not depend on data."""
    match node:
        case Split(feature, _, below, above):
            return (feature, shape_of(below), shape_of(above))
        case BankNode(condition, subtree):
            return (condition, shape_of(subtree))
    return "leaf"


def heights(node, depth=0):
    """Depth of every leaf, a bank node counting as one level."""
    match node:
        case Split(_, _, below, above):
            return heights(below, depth + 1) | heights(above, depth + 1)
        case BankNode(_, subtree):
            return heights(subtree, depth + 1)
    return {depth}


def cuts_of(node):
    match node:
        case Split(_, cut, below, above):
            return [cut, *cuts_of(below), *cuts_of(above)]
        case BankNode(_, subtree):
            return cuts_of(subtree)
    return []


# --- what others can see ------------------------------------------------------------------------

CONFIGS = {
    "random": ForestConfig(n_atoms=11, n_trees=8, shape=RandomShape(height=5)),
    "random, two sets": ForestConfig(
        n_atoms=11, n_trees=4, shape=RandomShape(height=4, conditions=MILD)
    ),
    "random, redrawn": ForestConfig(
        n_atoms=11,
        n_trees=8,
        shape=RandomShape(height=5),
        max_groups_per_tree=10,
        max_distinct_sets=4,
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_what_others_see_does_not_depend_on_the_data(config):
    forests = [build_forest(config, NAMES, some_data(seed), seed=7) for seed in (0, 1, 4)]
    for forest in forests:
        assert forest.sizes == config.sizes
        assert len(forest.groups) == config.sizes.n_groups
        assert forest.set_index.shape == (config.sizes.n_groups, config.sizes.n_sets)
        assert len(forest.distinct_sets) == config.sizes.n_distinct_sets
        assert forest.groups == forests[0].groups
        assert [shape_of(tree) for tree in forest.trees] == [
            shape_of(tree) for tree in forests[0].trees
        ]
    first, second = ([cuts_of(tree) for tree in forest.trees] for forest in forests[:2])
    assert first != second


def test_what_others_see_does_not_depend_on_the_seed_either():
    config = CONFIGS["random"]
    forests = [build_forest(config, NAMES, some_data(0), seed=seed) for seed in range(4)]
    real = {sum(count_groups(tree) for tree in forest.trees) for forest in forests}
    assert len(real) > 1
    assert {len(forest.groups) for forest in forests} == {8 * 16}
    assert {forest.sizes for forest in forests} == {config.sizes}


# --- random trees -------------------------------------------------------------------------------


def red_leaf_moments(height, n_features, n_conditions):
    """Mean and variance of the number of groups, by recursion over the height."""
    bank = n_conditions / (n_features + n_conditions)
    mean = variance = 0.0
    for level in range(1, height + 1):
        full = 2 ** (level - 1)
        square = bank * full**2 + (1 - bank) * (2 * variance + (2 * mean) ** 2)
        mean = bank * full + (1 - bank) * 2 * mean
        variance = square - mean**2
    return mean, variance


def test_the_number_of_red_leaves_matches_the_formula_of_the_paper():
    n_features, n_trees, height = 10, 1000, 6
    features = some_data(0, n=50, n_features=n_features)
    names = [str(number) for number in range(n_features)]
    config = ForestConfig(n_atoms=11, n_trees=n_trees, shape=RandomShape(height=height))
    forest = build_forest(config, names, features, seed=1)
    red = np.array([2 * count_groups(tree) for tree in forest.trees])
    mean, variance = red_leaf_moments(height, n_features, 2)
    expected = 2 * mean
    assert expected * 12 == pytest.approx(511, abs=0.5)
    # The mean of 1000 trees has a standard deviation of 0.47.  5 of them: false alarm below 1e-6.
    # Choosing bank nodes with probability 1/5 or 1/7 instead of 1/6 moves the mean by 4.6 or 4.0,
    # and is noticed with probability above 0.999.
    assert abs(red.mean() - expected) < 5 * np.sqrt(4 * variance / n_trees)
    assert red.std() ** 2 == pytest.approx(4 * variance, rel=0.35)


def test_random_trees_are_complete_and_have_at_most_one_bank_node_per_path():
    config = ForestConfig(n_atoms=11, n_trees=40, shape=RandomShape(height=5))
    forest = build_forest(config, NAMES, some_data(0), seed=3)
    assert all(heights(tree) == {5} for tree in forest.trees)
    # A path with a bank node has one split less: a group stands for two leaves.
    leaves = [count_leaves(tree) + count_groups(tree) for tree in forest.trees]
    assert set(leaves) == {2**5}
    assert {group.side for group in forest.groups} == {0, 1}


def test_a_tree_with_too_many_groups_is_drawn_again_and_an_impossible_maximum_is_named():
    config = CONFIGS["random, redrawn"]
    forest = build_forest(config, NAMES, some_data(0), seed=0)
    counts = [count_groups(tree) for tree in forest.trees]
    assert max(counts) <= 10
    assert len(forest.groups) == 80
    impossible = ForestConfig(
        n_atoms=11, n_trees=1, shape=RandomShape(height=5), max_groups_per_tree=1
    )
    features = some_data(0)
    with pytest.raises(ParameterError, match="max_groups_per_tree = 1"):
        build_forest(impossible, ["score"], features[:, :1], seed=0)


def test_a_larger_forest_begins_with_the_trees_of_a_smaller_one():
    small, large = (
        build_forest(
            ForestConfig(n_atoms=11, n_trees=n, shape=RandomShape(height=3)), NAMES, some_data(0), 5
        )
        for n in (2, 6)
    )
    assert small.trees == large.trees[:2]


def test_no_leaf_of_a_random_tree_is_empty_by_construction():
    rng = np.random.default_rng(0)
    features = rng.random((200_000, 2)).astype(np.float32)
    config = ForestConfig(n_atoms=11, n_trees=6, shape=RandomShape(height=3))
    forest = build_forest(config, ["a", "b"], features, seed=2)
    assert len(np.unique(forest.route(features))) == sum(map(count_leaves, forest.trees))


def features_of(node):
    match node:
        case Split(feature, _, below, above):
            return {feature} | features_of(below) | features_of(above)
        case BankNode(_, subtree):
            return features_of(subtree)
    return set()


def test_splits_test_the_named_features_only_and_an_unknown_one_is_refused():
    def build(*features):
        shape = RandomShape(height=4, features=features)
        return build_forest(
            ForestConfig(n_atoms=11, n_trees=9, shape=shape), NAMES, some_data(0), seed=0
        )

    assert set().union(*map(features_of, build("hour", "score").trees)) == {0, 2}
    assert build(*NAMES) == build_forest(
        ForestConfig(n_atoms=11, n_trees=9, shape=RandomShape(height=4)),
        NAMES,
        some_data(0),
        seed=0,
    )
    with pytest.raises(ParameterError, match=r"'scor', which is no feature.*score, amount, hour"):
        build("scor")


def test_names_that_do_not_fit_the_features_are_refused():
    with pytest.raises(ParameterError, match="2 names for 3 features"):
        build_forest(CONFIGS["random"], NAMES[:2], some_data(0), seed=0)
