"""The layout of a table costs what its accounts and its bank make it cost, from public numbers."""

import pytest

from pv4fad.hashing.table_size import BLOCK_SIZE, TableLayout
from pv4fad.protocol.layouts import cheapest_layout, table_seconds
from pv4fad.protocol.tables import padded

K = 3


def layout_of(n_accounts: int, n_bank_accounts: int, n_trees: int = 1, **more) -> TableLayout:
    n, m = padded(n_accounts), padded(n_bank_accounts)
    return cheapest_layout(n, m, n_trees=n_trees, n_atoms=K, **more)


def test_few_accounts_at_a_small_bank_take_many_strips():
    layout = layout_of(200, 4000, n_tables=25)
    assert layout.n_blocks == 1
    assert BLOCK_SIZE // layout.block_size >= 10
    full = TableLayout.for_accounts(padded(200), 1, 25)
    assert table_seconds(layout, 4096, K) < table_seconds(full, 4096, K) / 2


def test_the_more_accounts_there_are_the_fewer_strips():
    strips = [BLOCK_SIZE // layout_of(n, 4000).block_size for n in (1000, 2000, 4000, 6000, 12_000)]
    assert strips == sorted(strips, reverse=True)
    assert strips[0] > strips[2] > strips[-1] == 1


@pytest.mark.parametrize(
    ("n", "m", "n_trees"), [(1, 1, 1), (900, 4000, 12), (5000, 10, 3), (13_000, 100_000, 12)]
)
def test_the_accounts_find_their_place_however_many_strips_there_are(n, m, n_trees):
    layout = layout_of(n, m, n_trees, n_tables=25)
    assert layout.n_accounts_declared == padded(n)
    assert layout.log2_failure() < -30 - 4.6
    assert layout.block_size == BLOCK_SIZE // (BLOCK_SIZE // layout.block_size)
    assert layout.n_blocks == 1 or layout.block_size == BLOCK_SIZE


def test_few_accounts_at_a_large_bank_get_more_blocks_than_they_fill():
    """A bank's polynomials cost the square of its loads; a block costs a second."""
    large = layout_of(200, 2_000_000)
    assert 3 <= large.n_blocks <= 12
    full = layout_of(100_000, 2_000_000)
    assert large.n_blocks < full.n_blocks
    m = padded(2_000_000)
    one_block = TableLayout.for_accounts(padded(200), 1)
    assert table_seconds(large, m, K) < table_seconds(one_block, m, K) / 2


@pytest.mark.parametrize("n", [7000, 40_000])
def test_no_number_of_blocks_costs_less(n):
    """The time has steps, so with more blocks it can fall again after it has risen."""
    for m in [eighths << k for k in range(7, 17) for eighths in range(8, 16)]:
        assert m == padded(m)
        others = (
            TableLayout.for_accounts(padded(n), 1, least_blocks=blocks) for blocks in range(1, 150)
        )
        least = min(table_seconds(other, m, K) for other in others)
        assert table_seconds(layout_of(n, m), m, K) <= least


@pytest.mark.parametrize("m", [1, 1000, 100_000, 2_000_000, 10**7])
def test_a_layout_follows_from_padded_sizes(m):
    layout = layout_of(200, m)
    assert layout_of(padded(200) - 1, padded(m) - 1) == layout
    # The mean load stays where making the polynomials does not dominate.
    assert 3 * m / layout.n_bins < 120


def test_strips_do_not_take_the_segments_of_a_table():
    """With a segment for each tree, counting takes a fraction of the time."""
    full = TableLayout.for_accounts(padded(900), 12)
    assert full.n_segments == layout_of(900, 4000, 12).n_segments == 12
