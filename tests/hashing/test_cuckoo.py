"""Placement: every account in one of its bins, one account per bin, whenever that is possible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError, PlacementError
from pv4fad.hashing.keyed import AccountHashes, hash_accounts, new_hash_key, tree_of
from pv4fad.hashing.placement import place
from pv4fad.hashing.table_size import TableLayout


def random_hashes(n: int, seed: int) -> AccountHashes:
    words = np.random.default_rng(seed).integers(0, 2**64, (n, 4), dtype=np.uint64)
    return AccountHashes(words[:, :3], words[:, 3])


def assert_valid(placement, hashes, trees, layout):
    bins = placement.bin_of_account
    assert (layout.candidate_bins(hashes, trees) == bins[:, np.newaxis]).any(axis=1).all()
    assert len(np.unique(bins)) == len(hashes)
    assert len(placement.account_of_bin) == layout.n_bins
    assert (placement.account_of_bin[bins] == np.arange(len(hashes))).all()
    assert (placement.account_of_bin >= 0).sum() == len(hashes)


@pytest.mark.parametrize("n_accounts", [0, 1, 20, 8334, 30_000])
def test_every_account_gets_one_of_its_bins_for_itself(n_accounts):
    accounts = [b"account %d" % i for i in range(n_accounts)]
    hashes, trees = hash_accounts(accounts, new_hash_key()), tree_of(accounts, 12)
    layout = TableLayout.for_accounts(max(n_accounts, 1), 12)
    assert_valid(place(hashes, trees, layout), hashes, trees, layout)


@given(n_accounts=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_placement_fails_only_if_some_bins_contain_too_many_accounts(n_accounts, seed):
    layout = TableLayout(12, 1, 1, 12, 1, 12)
    hashes, trees = random_hashes(n_accounts, seed), np.zeros(n_accounts, np.int64)
    masks = (1 << layout.candidate_bins(hashes, trees)).sum(axis=1)
    sets_of_bins = np.arange(1 << 12)
    contained = ((masks & ~sets_of_bins[:, np.newaxis]) == 0).sum(axis=1)
    if (contained <= np.bitwise_count(sets_of_bins)).all():
        assert_valid(place(hashes, trees, layout), hashes, trees, layout)
    else:
        with pytest.raises(PlacementError, match="new hash key"):
            place(hashes, trees, layout)


def test_four_accounts_with_the_same_bins_do_not_fit():
    words = np.zeros((4, 3), np.uint64)
    layout = TableLayout.for_accounts(4, 1)
    with pytest.raises(PlacementError):
        place(AccountHashes(words, words[:, 0]), np.zeros(4, np.int64), layout)


def test_more_accounts_than_declared_are_refused():
    layout = TableLayout.for_accounts(10, 1)
    with pytest.raises(ParameterError, match="declared for 10 records"):
        place(random_hashes(11, 1), np.zeros(11, np.int64), layout)


def test_a_placement_does_not_print_where_accounts_are():
    layout = TableLayout.for_accounts(10, 1)
    assert repr(place(random_hashes(10, 1), np.zeros(10, np.int64), layout)) == "Placement()"
