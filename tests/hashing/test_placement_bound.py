"""The bound on failure lies above what is measured, and just above what is counted exactly."""

from itertools import combinations
from math import log2

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from pv4fad.hashing.keyed import AccountHashes
from pv4fad.hashing.placement_bound import log2_failure_bound
from pv4fad.hashing.table_size import TableLayout


def exact_failure(n_accounts: int, n_bins: int) -> float:
    """By Hall's condition, over all choices of triples."""
    triples = [sum(1 << b for b in triple) for triple in combinations(range(n_bins), 3)]
    choices = np.array(np.meshgrid(*[triples] * n_accounts)).reshape(n_accounts, -1)
    fails = np.zeros(choices.shape[1], bool)
    for size in range(4, n_accounts + 1):
        for accounts in combinations(range(n_accounts), size):
            bins = np.bitwise_or.reduce(choices[list(accounts)])
            fails |= np.bitwise_count(bins) < size
    return float(fails.mean())


def measured_failures(n_tables: int, n_accounts: int, n_bins: int) -> int:
    """All tables are matched at once, as segments of one large table."""
    n = n_tables * n_accounts
    layout = TableLayout(n, n_tables, n_tables, n_bins, 1, n_tables * n_bins)
    words = np.random.default_rng(5).integers(0, 2**64, (n, 3), dtype=np.uint64)
    table = np.arange(n) // n_accounts
    bins = layout.candidate_bins(AccountHashes(words, words[:, 0]), table)
    starts = np.arange(0, 3 * n + 1, 3)
    graph = csr_array((np.ones(3 * n), bins.ravel(), starts), shape=(n, n_tables * n_bins))
    matched = maximum_bipartite_matching(graph, perm_type="column").reshape(n_tables, n_accounts)
    return int((matched < 0).any(axis=1).sum())


@pytest.mark.parametrize(("n_accounts", "n_bins"), [(4, 5), (4, 6), (4, 7), (5, 6)])
def test_bound_lies_above_the_exact_probability_and_within_a_tenth(n_accounts, n_bins):
    exact = exact_failure(n_accounts, n_bins)
    assert exact > 0
    assert log2(exact) <= log2_failure_bound(n_accounts, n_bins) <= log2(exact) + 0.1


@pytest.mark.parametrize(
    ("n_accounts", "n_bins"), [(6, 8), (8, 12), (12, 16), (16, 20), (20, 25), (50, 65)]
)
def test_bound_lies_above_the_measured_failure_rate(n_accounts, n_bins):
    # Among 100,000 tables there are more than 30 failures (checked), so a bound below half the
    # true rate would be noticed with a probability above 99 %.  (20, 25) are 1.25 bins per account:
    # one table in a hundred fails.
    failures = measured_failures(100_000, n_accounts, n_bins)
    assert failures > 30
    assert failures / 100_000 <= 2 ** log2_failure_bound(n_accounts, n_bins) < 0.5


def test_bound_falls_with_bins_and_rises_with_accounts():
    of_bins = [log2_failure_bound(1000, bins) for bins in range(1200, 1400, 10)]
    assert of_bins == sorted(of_bins, reverse=True)
    of_accounts = [log2_failure_bound(n, 1300) for n in range(900, 1200, 10)]
    assert of_accounts == sorted(of_accounts)


def test_trivial_cases():
    assert log2_failure_bound(0, 3) == log2_failure_bound(3, 3) == -np.inf
    assert log2_failure_bound(10, 9) == 0
    assert log2_failure_bound(10, 10) == 0
