"""The bank's bins: every account once in each of its three, whatever the sizes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.keyed import AccountHashes, hash_accounts, new_hash_key, tree_of
from pv4fad.hashing.placement import BankBins, place
from pv4fad.hashing.table_size import TableLayout


def random_hashes(n: int, seed: int) -> AccountHashes:
    words = np.random.default_rng(seed).integers(0, 2**64, (n, 4), dtype=np.uint64)
    return AccountHashes(words[:, :3], words[:, 3])


@given(
    n_accounts=st.integers(0, 200),
    n_trees=st.integers(1, 5),
    bins_per_segment=st.integers(3, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_account_is_entered_once_in_each_of_its_bins(
    n_accounts, n_trees, bins_per_segment, seed
):
    # Few bins: many more accounts than bins, and segments that cross blocks of eight.
    n_blocks = -(-n_trees * bins_per_segment // 8)
    layout = TableLayout(5, n_trees, n_trees, bins_per_segment, n_blocks, 8)
    hashes = random_hashes(n_accounts, seed)
    trees = np.random.default_rng(seed).integers(0, n_trees, n_accounts)
    entered = BankBins.of_accounts(hashes, trees, layout)
    found, loads = [], []
    for block in range(n_blocks):
        accounts = entered.accounts_of_block(block)
        there = accounts >= 0
        loads.append(len(accounts))
        assert there.any(axis=1).all()  # no row is empty
        assert (there[:-1] >= there[1:]).all()  # the accounts of a bin come first
        row, slot = np.nonzero(there)
        found += list(zip(accounts[row, slot].tolist(), (8 * block + slot).tolist(), strict=True))
    assert entered.largest_load() == max(loads)
    bins = layout.candidate_bins(hashes, trees)
    expected = [(a, b) for a in range(n_accounts) for b in bins[a].tolist()]
    assert sorted(found) == sorted(expected)


def test_an_account_on_both_sides_meets_itself_in_exactly_one_slot():
    shared = [b"shared %d" % i for i in range(3000)]
    network = shared + [b"network %d" % i for i in range(3000)]
    bank = [b"bank %d" % i for i in range(9000)] + shared
    key, layout = new_hash_key(), TableLayout.for_accounts(6000, 12)
    placement = place(hash_accounts(network, key), tree_of(network, 12), layout)
    entered = BankBins.of_accounts(hash_accounts(bank, key), tree_of(bank, 12), layout)
    meetings = np.zeros(len(bank), int)
    blocks = placement.account_of_bin.reshape(layout.n_blocks, layout.block_size)
    for block, of_network in enumerate(blocks):
        accounts = entered.accounts_of_block(block)
        same = (accounts >= 9000) & (accounts - 9000 == of_network)
        np.add.at(meetings, accounts[same], 1)
    assert (meetings[:9000] == 0).all()
    assert (meetings[9000:] == 1).all()


def test_an_empty_bank_has_empty_bins():
    layout = TableLayout.for_accounts(100_000, 12)
    entered = BankBins.of_accounts(random_hashes(0, 1), np.zeros(0, np.int64), layout)
    assert entered.largest_load() == 0
    assert entered.accounts_of_block(7).shape == (0, 16384)


def test_as_many_bank_accounts_as_bins_make_about_a_dozen_in_the_fullest():
    # 2.3 accounts in a bin on average: above 16 with probability below 1e-6
    # (8 blocks · 16384 · P(Poisson(2.3) > 16) = 5e-6 over random seeds; the seed is fixed).
    layout = TableLayout.for_accounts(100_000, 12)
    trees = np.random.default_rng(2).integers(0, 12, 100_000)
    entered = BankBins.of_accounts(random_hashes(100_000, 3), trees, layout)
    assert 9 <= entered.largest_load() <= 16
