"""Public sizes: they follow from declared numbers, are as small as the bound allows, and hold."""

from itertools import permutations
from math import log2

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import AccountHashes
from pv4fad.hashing.placement_bound import log2_failure_bound
from pv4fad.hashing.table_size import TableLayout, largest_tree


def layout_of(n_trees: int, bins_per_segment: int) -> TableLayout:
    return TableLayout(10, n_trees, n_trees, bins_per_segment, 1, n_trees * bins_per_segment)


def random_hashes(n: int, seed: int = 1) -> AccountHashes:
    words = np.random.default_rng(seed).integers(0, 2**64, (n, 4), dtype=np.uint64)
    return AccountHashes(words[:, :3], words[:, 3])


@pytest.mark.parametrize(
    ("n_accounts", "bins"),
    # The table of docs/understand/hashing.md.
    [(20, 59), (100, 158), (1000, 1240), (8334, 9998), (100_000, 119_428), (400_000, 477_557)],
)
def test_documented_segment_sizes_are_the_smallest_that_the_bound_allows(n_accounts, bins):
    assert log2_failure_bound(n_accounts, bins) < -30 <= log2_failure_bound(n_accounts, bins - 1)


@pytest.mark.parametrize("n_trees", [1, 12])
def test_100_000_accounts_take_eight_blocks_with_and_without_segments(n_trees):
    layout = TableLayout.for_accounts(100_000, n_trees)
    assert (layout.n_segments, layout.n_blocks) == (n_trees, 8)


@pytest.mark.parametrize("n_declared", [1, 20, 1000, 10_500, 13_000, 40_000, 100_000])
@pytest.mark.parametrize("n_tables", [1, 50])
def test_all_tables_of_a_run_fail_with_less_than_the_limit(n_declared, n_tables):
    layout = TableLayout.for_accounts(n_declared, 12, n_tables)
    assert layout.log2_failure() + log2(n_tables) < -30
    assert layout.n_bins_used > layout.n_bins - 12


def test_a_table_has_segments_only_where_they_are_cheap():
    for n_declared in (1000, 11_000, 50_000, 103_000):
        plain = TableLayout.for_accounts(n_declared, 1)
        layout = TableLayout.for_accounts(n_declared, 12)
        assert layout.n_blocks <= 1.125 * plain.n_blocks
    assert TableLayout.for_accounts(1000, 12).n_segments == 12
    assert TableLayout.for_accounts(11_000, 12).n_segments == 1
    assert TableLayout.for_accounts(103_000, 12).n_segments == 12


def test_largest_tree_is_a_bound_on_the_largest_of_many_random_divisions():
    # One division in a hundred may exceed the bound; it is far from tight (Chernoff), and more than
    # 35 of 1000 would have a probability below 1e-9 if it were just met.
    rng = np.random.default_rng(3)
    most = rng.multinomial(10_000, np.full(12, 1 / 12), size=1000).max(axis=1)
    bound = largest_tree(10_000, 12, log2(0.01))
    assert (most > bound).sum() <= 35
    assert bound < 1.1 * most.max()
    assert largest_tree(10_000, 1, -30) == 10_000
    assert largest_tree(5, 12, -30) == 5


def test_candidate_bins_are_different_and_every_triple_is_equally_likely():
    layout = layout_of(1, 5)
    bins = layout.candidate_bins(random_hashes(60_000), np.zeros(60_000, np.int64))
    triples = {triple: i for i, triple in enumerate(permutations(range(5), 3))}
    counts = np.bincount([triples[tuple(row)] for row in bins.tolist()], minlength=60)
    # Chi-square with 59 degrees of freedom exceeds 135 with probability below 1e-7.
    assert ((counts - 1000) ** 2 / 1000).sum() < 135


def test_equal_words_still_give_three_bins():
    hashes = AccountHashes(np.zeros((1, 3), np.uint64), np.zeros(1, np.uint64))
    assert layout_of(1, 3).candidate_bins(hashes, np.zeros(1, np.int64)).tolist() == [[0, 1, 2]]


def test_an_account_stays_in_the_segment_of_its_tree():
    layout = layout_of(4, 10)
    trees = np.arange(1000) % 4
    bins = layout.candidate_bins(random_hashes(1000), trees)
    assert (bins // 10 == trees[:, np.newaxis]).all()
    assert layout.segment(2) == slice(20, 30)
    whole = TableLayout(10, 4, 1, 40, 1, 40)
    assert set(whole.candidate_bins(random_hashes(1000), trees)[:, 0] // 10) == {0, 1, 2, 3}


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_impossible_numbers_are_refused(sizes):
    with pytest.raises(ParameterError, match="positive"):
        TableLayout.for_accounts(*sizes)


@pytest.mark.parametrize(
    "layout",
    [
        (0, 12, 12, 1365, 1),
        (10, 12, 3, 5000, 1),
        (10, 1, 1, 2, 1),
        (10, 1, 1, 20_000, 1),
        (10, 12, 12, 1365, 2),
        (10, 12, 12, 0, 0),
    ],
)
def test_a_layout_whose_parts_do_not_fit_together_is_refused(layout):
    with pytest.raises(ParameterError):
        TableLayout(*layout)
