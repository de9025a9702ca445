"""The contribution bound is never exceeded, skips only what would exceed, and is fair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.privacy.bound import keep_within_bound, sensitivity


class RecordedOrder:
    """A generator whose permutation the test knows."""

    def __init__(self, seed: int, n: int) -> None:
        self.order = np.random.default_rng(seed).permutation(n)

    def permutation(self, n: int) -> np.ndarray:
        assert n == len(self.order)
        return self.order


def one_by_one(account, weight, bound, order):
    """§5.1 literally: in random order, keep while Σ|weight| ≤ bound, skip what would exceed."""
    used = dict.fromkeys(account.tolist(), 0)
    kept = np.zeros(len(account), bool)
    for pair in order:
        owner, size = int(account[pair]), abs(int(weight[pair]))
        if used[owner] + size <= bound:
            used[owner] += size
            kept[pair] = True
    return kept


pair = st.tuples(st.integers(0, 5), st.integers(-7, 7).filter(bool))


@given(st.lists(pair, max_size=60), st.integers(7, 30), st.integers(0, 2**32 - 1))
def test_keeps_exactly_what_going_through_the_pairs_one_by_one_keeps(pairs, bound, seed):
    account = np.array([owner for owner, _ in pairs], np.int64)
    weight = np.array([size for _, size in pairs], np.int64)
    rng = RecordedOrder(seed, len(pairs))
    kept = keep_within_bound(account, weight, bound, rng)
    assert np.array_equal(kept, one_by_one(account, weight, bound, rng.order))


@given(st.lists(pair, min_size=1, max_size=200), st.integers(7, 20), st.integers(0, 2**32 - 1))
def test_no_account_exceeds_the_bound_and_nothing_that_fits_is_left_out(pairs, bound, seed):
    account = np.array([owner for owner, _ in pairs], np.int64)
    weight = np.array([size for _, size in pairs], np.int64)
    kept = keep_within_bound(account, weight, bound, np.random.default_rng(seed))
    used = np.bincount(account[kept], np.abs(weight[kept]), minlength=6)
    assert used.max() <= bound
    assert np.all(used[account[~kept]] + np.abs(weight[~kept]) > bound)


def test_every_pair_of_an_account_is_equally_likely_to_be_kept():
    rng = np.random.default_rng(0)
    n_accounts, n_pairs, bound = 20_000, 8, 2
    account = np.repeat(np.arange(n_accounts), n_pairs)
    kept = keep_within_bound(account, np.ones_like(account), bound, rng)
    by_position = kept.reshape(n_accounts, n_pairs).sum(axis=0)
    # Each position: Binomial(20000, 1/4), standard deviation 61.  5.5 deviations are exceeded by
    # one of 8 positions with probability 3e-7; a share of 0.27 instead of 0.25 is 6.5 away.
    assert np.abs(by_position - n_accounts * bound / n_pairs).max() < 5.5 * 61.3


def test_a_hub_with_very_many_pairs_and_mixed_weights_needs_few_rounds():
    rng = np.random.default_rng(1)
    account = np.zeros(300_000, np.int64)
    weight = rng.choice([-1, 3, 5], len(account))
    kept = keep_within_bound(account, weight, 100_000, rng)
    assert np.abs(weight[kept]).sum() == 100_000


def test_a_weight_above_the_bound_is_an_error_and_not_a_silent_loss():
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="weight 3 exceeds bound = 2"):
        keep_within_bound(np.array([0, 1]), np.array([1, -3]), 2, rng)
    with pytest.raises(ParameterError, match="at least 1"):
        keep_within_bound(np.array([0]), np.array([1]), 0, rng)
    with pytest.raises(ParameterError, match="weight 0"):
        keep_within_bound(np.array([0]), np.array([0]), 2, rng)


def test_sensitivity_is_twice_the_bound_with_two_sets():
    assert sensitivity(3, 1) == 3
    assert sensitivity(3, 2) == 6
