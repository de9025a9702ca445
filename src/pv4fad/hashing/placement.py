"""Both sides of a table: where the payment network and a bank put their accounts.

The payment network puts every account in one of its three bins, at most one per bin.  The placement
is a maximum matching between accounts and bins, so it exists whenever Hall's condition holds, and
fails with exactly the probability that `placement_bound` bounds.

It depends on the hash words and the order of the accounts only, and no other party sees it: banks
get every bin encrypted, full or empty, and the number of bins follows from the declared account
count.

A bank puts every account in all three bins, because an account that the payment network has as well
is in one of them there.  Bins then hold several accounts: their number is the bin's load.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from pv4fad.errors import ParameterError, PlacementError
from pv4fad.hashing.keyed import N_FUNCTIONS, AccountHashes
from pv4fad.hashing.table_size import TableLayout


@dataclass(frozen=True)
class Placement:
    """Where each account is, and which account is in each bin (−1: none).  Secret."""

    bin_of_account: NDArray[np.int64] = field(repr=False)
    account_of_bin: NDArray[np.int64] = field(repr=False)


def place(hashes: AccountHashes, trees: NDArray[np.int64], layout: TableLayout) -> Placement:
    """A bin for every account; `trees` as of `keyed.tree_of`, accounts without duplicates."""
    n_accounts = len(hashes)
    if n_accounts > layout.n_accounts_declared:
        raise ParameterError(
            f"a table that was declared for {layout.n_accounts_declared} records got more: "
            "declare more"
        )
    candidates = layout.candidate_bins(hashes, trees)
    bin_of_account = _match(candidates, layout.n_bins)
    if (bin_of_account < 0).any():
        raise PlacementError(
            "the records of a table do not fit its bins; start the run again with a new hash key "
            "(if that fails too: are there duplicates?)"
        )
    account_of_bin = np.full(layout.n_bins, -1, np.int64)
    account_of_bin[bin_of_account] = np.arange(n_accounts)
    return Placement(bin_of_account, account_of_bin)


def _match(candidates: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """The bin of each account in a maximum matching, −1 for accounts that got none."""
    n_accounts = len(candidates)
    graph = csr_array(
        (
            np.ones(candidates.size, np.int8),
            candidates.astype(np.int32).ravel(),
            np.arange(0, candidates.size + 1, N_FUNCTIONS, dtype=np.int32),
        ),
        shape=(n_accounts, n_bins),
    )
    matched: NDArray[np.int32] = maximum_bipartite_matching(graph, perm_type="column")
    return matched.astype(np.int64)


@dataclass(frozen=True)
class BankBins:
    """The entries of all bins, sorted by bin: those of bin b start at `first_entry[b]`."""

    layout: TableLayout
    accounts: NDArray[np.int32] = field(repr=False)
    first_entry: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of_accounts(
        cls, hashes: AccountHashes, trees: NDArray[np.int64], layout: TableLayout
    ) -> "BankBins":
        """Enter every account; `trees` as of `keyed.tree_of`, accounts without duplicates."""
        bins = layout.candidate_bins(hashes, trees).ravel()
        # Bin and account in one word: sorting words is several times faster than an argsort.
        entries = bins << 32
        entries |= np.repeat(np.arange(len(hashes)), N_FUNCTIONS)
        entries.sort()
        first_entry = np.zeros(layout.n_bins + 1, np.int64)
        np.cumsum(np.bincount(bins, minlength=layout.n_bins), out=first_entry[1:])
        return cls(layout, (entries & 0xFFFFFFFF).astype(np.int32), first_entry)

    def largest_load(self) -> int:
        """How many accounts the fullest bin has."""
        return int(np.diff(self.first_entry).max())

    def accounts_of_block(self, block: int) -> NDArray[np.int32]:
        """(largest load, block_size): the accounts in each bin, then −1 where there are no more."""
        size = self.layout.block_size
        first = self.first_entry[block * size : (block + 1) * size + 1]
        in_bin = np.diff(first)
        slots = np.repeat(np.arange(size), in_bin)
        positions = np.arange(first[0], first[-1]) - first[slots]
        accounts = np.full((in_bin.max(), size), -1, np.int32)
        accounts[positions, slots] = self.accounts[first[0] : first[-1]]
        return accounts
