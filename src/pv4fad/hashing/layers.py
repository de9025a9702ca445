"""The bank's side of a table: all accounts in all their bins, spread over layers.

An account that the payment network has as well sits there in one of its three bins, so the bank
enters each of its accounts in all three.  Bins then hold several accounts; layer i of a block has
the i-th account of every bin.  A block has as many layers as its fullest bin has accounts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import N_FUNCTIONS, AccountHashes
from pv4fad.hashing.table_size import TableLayout


@dataclass(frozen=True)
class BankLayers:
    """The entries of all bins, sorted by bin: those of bin b start at `first_entry[b]`."""

    layout: TableLayout
    accounts: NDArray[np.int32] = field(repr=False)
    first_entry: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of_accounts(
        cls, hashes: AccountHashes, trees: NDArray[np.int64], layout: TableLayout
    ) -> "BankLayers":
        """Enter every account; `trees` as of `keyed.tree_of`, accounts without duplicates."""
        bins = layout.candidate_bins(hashes, trees).ravel()
        # Bin and account in one word: sorting words is several times faster than an argsort.
        entries = bins << 32
        entries |= np.repeat(np.arange(len(hashes)), N_FUNCTIONS)
        entries.sort()
        first_entry = np.zeros(layout.n_bins + 1, np.int64)
        np.cumsum(np.bincount(bins, minlength=layout.n_bins), out=first_entry[1:])
        return cls(layout, (entries & 0xFFFFFFFF).astype(np.int32), first_entry)

    def n_layers(self) -> NDArray[np.int64]:
        """The number of layers of each block."""
        in_bin = np.diff(self.first_entry).reshape(self.layout.n_blocks, self.layout.block_size)
        layers: NDArray[np.int64] = in_bin.max(axis=1)
        return layers

    def layers_of_block(self, block: int) -> NDArray[np.int32]:
        """(layers, block_size): the account in each slot of each layer, −1 where there is none."""
        size = self.layout.block_size
        first = self.first_entry[block * size : (block + 1) * size + 1]
        in_bin = np.diff(first)
        slots = np.repeat(np.arange(size), in_bin)
        positions = np.arange(first[0], first[-1]) - first[slots]
        layers = np.full((in_bin.max(), size), -1, np.int32)
        layers[positions, slots] = self.accounts[first[0] : first[-1]]
        return layers

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self.layers_of_block(block) for block in range(self.layout.n_blocks))
