"""The structure knows nothing of the data, and every row counts once in every tree."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.estimator import Categorical, Numeric, RandomDecisionForestClassifier
from pv4fad.estimator.domains import Domain
from pv4fad.estimator.trees import draw_trees, leaf_counts

DOMAINS = st.lists(
    st.one_of(
        st.just(Numeric(0, 1)), st.integers(1, 12).map(lambda size: Categorical(range(size)))
    ),
    min_size=1,
    max_size=6,
)
SHAPES = st.fixed_dictionaries(
    {
        "n_trees": st.integers(1, 8),
        "max_depth": st.integers(1, 6),
        "max_branches": st.integers(2, 9),
    }
)
SEEDS = st.integers(0, 2**32)


def random_rows(domains: list[Domain], n_rows: int, n_classes: int, rng: np.random.Generator):
    codes = [rng.integers(domain.n_codes, size=n_rows) for domain in domains]
    return codes, rng.integers(n_classes, size=n_rows)


@given(domains=DOMAINS, shape=SHAPES, seed=SEEDS)
def test_every_row_is_in_one_leaf_of_every_tree(domains, shape, seed):
    rng = np.random.default_rng(seed)
    trees = draw_trees(domains, **shape, rng=rng)
    codes, label = random_rows(domains, 50, 3, rng)
    assert len(trees) == shape["n_trees"]
    for tree, count in zip(trees, leaf_counts(trees, codes, label, 3), strict=True):
        leaf = tree.leaves(codes, 50)
        assert tree.n_leaves <= 2 ** shape["max_depth"]
        assert ((leaf >= 0) & (leaf < tree.n_leaves)).all()
        assert count.shape == (tree.n_leaves, 3)
        for row in range(50):
            branches = np.unravel_index(leaf[row], tree.shape) if tree.shape else ()
            for feature, table, branch in zip(tree.features, tree.branch_of, branches, strict=True):
                assert table[codes[feature][row]] == branch
        expected = [
            np.sum((leaf == at) & (label == k)) for at in range(len(count)) for k in range(3)
        ]
        assert count.ravel().tolist() == expected


@given(domains=DOMAINS, shape=SHAPES, seed=SEEDS)
def test_one_row_more_moves_the_counts_by_one_in_each_tree(domains, shape, seed):
    rng = np.random.default_rng(seed)
    trees = draw_trees(domains, **shape, rng=rng)
    codes, label = random_rows(domains, 30, 4, rng)
    with_row = leaf_counts(trees, codes, label, 4)
    without = leaf_counts(trees, [column[1:] for column in codes], label[1:], 4)
    moved = [np.abs(a - b).sum() for a, b in zip(with_row, without, strict=True)]
    assert moved == [1] * shape["n_trees"]  # so Σ is n_trees: the sensitivity that is declared


@given(domains=DOMAINS, shape=SHAPES, seed=SEEDS)
def test_features_are_asked_evenly_and_once_in_a_tree(domains, shape, seed):
    trees = draw_trees(domains, **shape, rng=np.random.default_rng(seed))
    useful = [at for at, domain in enumerate(domains) if domain.n_groups > 1]
    for tree in trees:
        assert len(set(tree.features)) == len(tree.features)
        # A tree ends early only when it has asked everything.
        levels = sum((width - 1).bit_length() for width in tree.shape)
        assert levels == shape["max_depth"] or set(tree.features) == set(useful)
    asked = np.bincount([f for tree in trees for f in tree.features], minlength=len(domains))
    if useful:
        assert np.ptp(asked[useful]) <= 1
    assert asked.sum() == asked[useful].sum()


def test_the_structure_does_not_depend_on_the_data():
    domains = [Numeric(0, 10), Categorical("abc"), Numeric(-1, 1)]
    rng = np.random.default_rng(0)
    forests = []
    for n_rows in (5, 500):
        rows = np.empty((n_rows, 3), object)
        rows[:, 0], rows[:, 2] = rng.normal(size=n_rows), rng.exponential(size=n_rows)
        rows[:, 1] = rng.choice(list("abz"), n_rows)
        forest = RandomDecisionForestClassifier(
            epsilon=1, domains=domains, classes=[0, 1, 2], random_state=7
        )
        forests.append(forest.fit(rows, rng.integers(2, size=n_rows)))
    for first, second in pairwise(forests):
        for a, b in zip(first.trees_, second.trees_, strict=True):
            assert (a.features, a.shape) == (b.features, b.shape)
            assert all(map(np.array_equal, a.branch_of, b.branch_of))
        assert [c.shape for c in first.counts_] == [c.shape for c in second.counts_]
