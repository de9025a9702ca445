"""Public sizes of a table, from the declared number of accounts and a bound on failure.

A table is a row of blocks of `block_size` bins, because a ciphertext carries one block and the cost
of everything is proportional to blocks.  So the bound (`placement_bound`) only decides how many
blocks there are; all their bins are then used, which leaves fewer accounts in each bin of the
bank, and a failure probability far below the limit.

With one segment per tree the number of accounts in a segment is random (a public hash), so half of
the failure probability goes to Chernoff's bound on it.  A table has segments if they cost at most
an eighth more blocks than one segment would: counting then touches the blocks of one tree only,
which saves some 0.6 s per block at 800 leaves, and an eighth of a block costs 0.2 s in the match
(measured with 100,000 accounts on each side).  A small table has segments if they fit into the
blocks that it needs anyway.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, log, log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import N_FUNCTIONS, AccountHashes, reduce_words
from pv4fad.hashing.placement_bound import log2_failure_bound

BLOCK_SIZE = 16384
LOG2_FAILURE = -30.0  # of any table of a run
_SEGMENTS_MAY_COST = 1 / 8  # more blocks
# The search for a size starts here: the bound never asks for less where that matters for the cost.
_LEAST_EXPANSION = 1.19


@dataclass(frozen=True)
class TableLayout:
    """Where the bins of a table are; everything here is public.

    Bin b is slot b mod `block_size` of block b div `block_size`; segment i is the range of
    `bins_per_segment` bins from i·`bins_per_segment`.  A few bins of the last block stay unused.
    """

    n_accounts_declared: int
    n_trees: int
    n_segments: int
    bins_per_segment: int
    n_blocks: int
    block_size: int = BLOCK_SIZE

    def __post_init__(self) -> None:
        if self.n_accounts_declared < 1 or self.n_trees < 1:
            raise ParameterError("a table needs at least one declared account and one tree")
        if self.bins_per_segment < N_FUNCTIONS:
            raise ParameterError(f"a segment of {self.bins_per_segment} bins: need {N_FUNCTIONS}")
        if self.n_segments not in (1, self.n_trees):
            raise ParameterError(
                f"a table has one segment, or one per tree: not {self.n_segments} segments "
                f"for {self.n_trees} trees"
            )
        if not self.n_bins - self.block_size < self.n_bins_used <= self.n_bins:
            raise ParameterError(
                f"{self.n_segments} segments of {self.bins_per_segment} bins do not fill "
                f"{self.n_blocks} blocks of {self.block_size}"
            )

    @classmethod
    def for_accounts(
        cls,
        n_declared: int,
        n_trees: int,
        n_tables: int = 1,
        block_size: int = BLOCK_SIZE,
        least_blocks: int = 1,
    ) -> "TableLayout":
        """The layout with the fewest blocks, and at least `least_blocks`, such that all `n_tables`
        tables of a run of this size or smaller together fail with a probability below 2^-30."""
        if n_declared < 1 or n_trees < 1 or n_tables < 1:
            raise ParameterError(
                f"a table layout needs positive numbers of declared accounts ({n_declared}), "
                f"trees ({n_trees}) and tables ({n_tables})"
            )
        limit = LOG2_FAILURE - log2(n_tables)
        n_blocks = max(least_blocks, _blocks_needed(n_declared, 1, limit, block_size))
        n_segments = 1
        if n_trees > 1:
            segmented = _blocks_needed(n_declared, n_trees, limit, block_size)
            if segmented <= n_blocks * (1 + _SEGMENTS_MAY_COST):
                n_segments, n_blocks = n_trees, max(least_blocks, segmented)
        return cls(
            n_accounts_declared=n_declared,
            n_trees=n_trees,
            n_segments=n_segments,
            bins_per_segment=n_blocks * block_size // n_segments,
            n_blocks=n_blocks,
            block_size=block_size,
        )

    @property
    def n_bins(self) -> int:
        return self.n_blocks * self.block_size

    @property
    def n_bins_used(self) -> int:
        return self.n_segments * self.bins_per_segment

    def segment(self, index: int) -> slice:
        """The bins of one segment."""
        return slice(index * self.bins_per_segment, (index + 1) * self.bins_per_segment)

    def segment_of(self, trees: NDArray[np.int64]) -> NDArray[np.int64]:
        """The segment of each account, given the tree that it teaches (`keyed.tree_of`)."""
        return trees if self.n_segments > 1 else np.zeros_like(trees)

    def candidate_bins(self, hashes: AccountHashes, trees: NDArray[np.int64]) -> NDArray[np.int64]:
        """The three bins of each account, (n, 3): the same for payment network and bank.

        They are different, each triple being equally likely.  If two of them could agree, two
        accounts with one bin between them would be the likeliest failure of a small segment.
        """
        size = self.bins_per_segment
        a, b, c = (reduce_words(hashes.bins[:, i], size - i) for i in range(N_FUNCTIONS))
        b += b >= a  # b-th of the bins without a, then c-th of those without a and b
        c += c >= np.minimum(a, b)
        c += c >= np.maximum(a, b)
        return np.stack([a, b, c], axis=1) + (self.segment_of(trees) * size)[:, np.newaxis]

    def log2_failure(self) -> float:
        """log2 of the bound on the probability that the declared accounts find no place."""
        if self.n_segments == 1:
            return log2_failure_bound(self.n_accounts_declared, self.bins_per_segment)

        def no_place(log2_overflow: float) -> float:
            """Some segment has no placement, and none has more accounts than `largest_tree`."""
            most = largest_tree(self.n_accounts_declared, self.n_segments, log2_overflow)
            return log2(self.n_segments) + log2_failure_bound(most, self.bins_per_segment)

        # The smaller the chance of overflow, the more accounts there may be: where do they cross?
        steps = _smallest(lambda n: no_place(-n / 16) >= -n / 16 or n >= 16 * 128, 1) - 1
        return float(np.logaddexp2(-steps / 16, no_place(-steps / 16)))


def largest_tree(n_accounts: int, n_trees: int, log2_failure: float) -> int:
    """More accounts than this teach one of the trees with a probability below 2^log2_failure.

    Chernoff's bound for one tree, times the number of trees.
    """
    if n_trees == 1:
        return n_accounts
    ln_allowed = (log2_failure - log2(n_trees)) * log(2)
    return _smallest(
        lambda most: _ln_binomial_tail(n_accounts, n_trees, most + 1) <= ln_allowed,
        n_accounts // n_trees,
    )


@lru_cache(maxsize=1024)
def _blocks_needed(n_accounts: int, n_segments: int, limit: float, block_size: int) -> int:
    # A segment with too many accounts may take half of the failure probability.
    most = largest_tree(n_accounts, n_segments, limit - 1)
    per_segment = limit - 1 - log2(n_segments)
    return _smallest(
        lambda n: log2_failure_bound(most, n * block_size // n_segments) < per_segment,
        ceil(_LEAST_EXPANSION * n_accounts / block_size),
    )


def _ln_binomial_tail(n: int, n_trees: int, at_least: int) -> float:
    """Chernoff: ln P(X ≥ at_least) ≤ −n·KL(at_least/n ‖ 1/n_trees), X binomial (n, 1/n_trees)."""
    if at_least > n:
        return -inf
    share, mean_share = at_least / n, 1 / n_trees
    if share <= mean_share:
        return 0.0
    divergence = share * log(share / mean_share)
    if share < 1:
        divergence += (1 - share) * log((1 - share) / (1 - mean_share))
    return -n * divergence


def _smallest(holds: Callable[[int], bool], low: int) -> int:
    """The smallest value from `low` on at which `holds`, which stays true once it is: bisection."""
    step = 1
    while not holds(low + step - 1):
        low, step = low + step, 2 * step
    return bisect_left(range(low, low + step - 1), True, key=holds) + low
