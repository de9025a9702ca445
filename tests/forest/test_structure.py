"""A forest routes as its nodes say, numbers its groups by public sizes, and refuses bad trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Node, Split

FEATURES = ("a", "b", "c")
NORMAL = BankCondition(1, ((0,),))
CLOSED = BankCondition(0, ((1, 5),))


def forest_of(*trees: Node, groups_per_tree: int = 8, n_sets: int = 1, n_distinct: int = 4):
    sizes = PublicSizes(len(trees), groups_per_tree, n_sets, n_distinct, 11)
    return Forest(trees, FEATURES, sizes)


def walk(node: Node, row: np.ndarray) -> list[str]:
    """The path of one transaction, slowly: the definition that `route` must meet."""
    if isinstance(node, BankNode):
        return ["bank", *walk(node.subtree, row)]
    if isinstance(node, Split):
        below = bool(row[node.feature] < np.float32(node.cut))
        return ["<" if below else ">=", *walk(node.below if below else node.above, row)]
    return []


def paths(node: Node) -> list[list[str]]:
    """All leaves of a tree, left to right."""
    if isinstance(node, BankNode):
        return [["bank", *path] for path in paths(node.subtree)]
    if isinstance(node, Split):
        return [
            [sign, *path]
            for sign, child in (("<", node.below), (">=", node.above))
            for path in paths(child)
        ]
    return [[]]


cuts = st.sampled_from([-1.0, 0.0, 0.5, 2.0])


def pns_tree(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(Split, st.integers(0, 2), cuts, children, children)


below_bank = st.recursive(st.just(Leaf()), pns_tree, max_leaves=4)
trees = st.recursive(
    st.one_of(st.just(Leaf()), st.builds(BankNode, st.sampled_from([NORMAL, CLOSED]), below_bank)),
    pns_tree,
    max_leaves=5,
)


@given(st.lists(trees, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_route_sends_every_transaction_where_a_walk_down_the_tree_ends(some_trees, seed):
    forest = forest_of(*some_trees, groups_per_tree=20)
    features = np.random.default_rng(seed).choice([-1, 0, 0.25, 1, 3, np.nan], (40, 3))
    features = features.astype(np.float32)
    codes = forest.route(features)
    first_green = 0
    for index, tree in enumerate(some_trees):
        leaves = paths(tree)
        red = [path for path in leaves if "bank" in path]
        green = [path for path in leaves if "bank" not in path]
        for row, code in zip(features, codes[:, index], strict=True):
            path = walk(tree, row)
            if code >= 0:
                assert red[code - 20 * index] == path
            else:
                assert green[-1 - code - first_green] == path
        first_green += len(green)
    assert forest.n_green == first_green


def test_routing_does_not_depend_on_how_many_transactions_there_are():
    forest = forest_of(Split(0, 0.5, BankNode(NORMAL, Split(1, 0.0, Leaf(), Leaf())), Leaf()))
    features = np.random.default_rng(0).normal(size=(70_000, 3)).astype(np.float32)
    codes = forest.route(features)
    assert np.array_equal(codes[-500:], forest.route(features[-500:]))
    assert forest.route(features[:0]).shape == (0, 1)


def test_a_cut_between_two_neighbouring_floats_is_decided_exactly():
    cut = float(np.float32(0.1))
    forest = forest_of(Split(0, cut, Leaf(), Leaf()))
    below = np.nextafter(np.float32(cut), np.float32(-1))
    features = np.array([[below, 0, 0], [cut, 0, 0]], np.float32)
    assert forest.route(features).ravel().tolist() == [-1, -2]


def test_groups_are_numbered_tree_by_tree_and_padded_with_groups_that_nothing_reaches():
    small = BankNode(NORMAL, Leaf())
    large = Split(0, 0.0, BankNode(CLOSED, Split(1, 0.0, Leaf(), Leaf())), small)
    forest = forest_of(small, large, groups_per_tree=4)
    assert len(forest.groups) == forest.sizes.n_groups == 8
    assert [group.tree for group in forest.groups] == [0] * 4 + [1] * 4
    conditions = [BankCondition(group.side, group.sets) for group in forest.groups]
    assert [conditions[0], *conditions[4:7]] == [NORMAL, CLOSED, CLOSED, NORMAL]
    features = np.random.default_rng(1).normal(size=(1000, 3)).astype(np.float32)
    assert set(np.unique(forest.route(features))) == {0, 4, 5, 6}


def test_distinct_sets_are_padded_and_every_group_finds_its_own():
    forest = forest_of(
        BankNode(CLOSED, Leaf()), BankNode(NORMAL, Leaf()), groups_per_tree=3, n_distinct=5
    )
    assert forest.distinct_sets == ((0,), (1, 5), (0,), (0,), (0,))
    for group, indices in zip(forest.groups, forest.set_index, strict=True):
        assert tuple(forest.distinct_sets[index] for index in indices) == group.sets


def test_a_forest_without_bank_nodes_has_the_same_public_sizes():
    plain = forest_of(Split(0, 0.0, Leaf(), Leaf()), n_distinct=2)
    with_bank = forest_of(BankNode(NORMAL, Leaf()), n_distinct=2)
    assert plain.sizes == with_bank.sizes
    for forest in (plain, with_bank):
        assert len(forest.groups) == forest.sizes.n_groups
        assert forest.set_index.shape == (forest.sizes.n_groups, forest.sizes.n_sets)
        assert len(forest.distinct_sets) == forest.sizes.n_distinct_sets


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (BankNode(NORMAL, BankNode(CLOSED, Leaf())), "two bank nodes"),
        (BankNode(NORMAL, Split(0, 0.0, Leaf(), BankNode(NORMAL, Leaf()))), "two bank nodes"),
        (Split(3, 0.0, Leaf(), Leaf()), "feature 3"),
        (Split(0, float("nan"), Leaf(), Leaf()), "finite float32"),
        (Split(0, 0.1, Leaf(), Leaf()), "finite float32"),
        (BankNode(BankCondition(0, ((0,), (1,))), Leaf()), "n_sets = 1"),
        (BankNode(BankCondition(0, ((11,),)), Leaf()), r"atom outside 0\.\.10"),
        (BankNode(BankCondition(2, ((0,),)), Leaf()), r"side outside 0\.\.1"),
        (BankNode(NORMAL, Split(0, 0.0, Leaf(), Leaf())), "groups_per_tree allows 1"),
    ],
)
def test_trees_that_break_a_rule_are_refused(tree, message):
    sizes = PublicSizes(1, 1, 1, 4, 11)
    with pytest.raises(ParameterError, match=message):
        Forest((tree,), FEATURES, sizes)


def test_a_tree_that_is_too_high_is_refused():
    tree: Node = Leaf()
    for _ in range(40):
        tree = Split(0, 0.0, tree, Leaf())
    with pytest.raises(ParameterError, match="higher than"):
        forest_of(tree)


def test_more_sets_than_the_public_maximum_are_refused():
    trees = [BankNode(BankCondition(0, ((atom,),)), Leaf()) for atom in range(3)]
    with pytest.raises(ParameterError, match="3 distinct sets"):
        forest_of(*trees, n_distinct=2)


@pytest.mark.parametrize("sets", [(), ((),), ((0, 1), (1, 2)), ((2, 1),), ((1, 1),)])
def test_sets_that_are_empty_overlap_or_are_out_of_order_are_refused(sets):
    with pytest.raises(ParameterError, match="set"):
        BankCondition(0, sets)


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 1, 1, 1, 1),
        (1, 0, 1, 1, 1),
        (1, 1, 33, 33, 4),
        (1, 1, 2, 1, 3),
        (1, 1, 1, 1, 0),
        (1, 1, 1, 1, 1, 0),
    ],
)
def test_impossible_public_sizes_are_refused(sizes):
    with pytest.raises(ParameterError, match=r"n_|groups_per_tree"):
        PublicSizes(*sizes)


def test_features_of_another_width_are_refused():
    with pytest.raises(ParameterError, match="3 columns"):
        forest_of(Leaf()).route(np.zeros((5, 2), np.float32))
