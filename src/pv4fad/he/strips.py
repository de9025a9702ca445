"""Strips: a small block of bins lies several times side by side in the slots of a ciphertext.

Bin b of a block with B bins is slot i·B + b of strip i; a ciphertext with N slots has N div B
strips, and a few slots that nobody uses.  A block of N bins has one strip, all slots.

What would take several ciphertexts of a full block, one row each, takes different strips of one.
What belongs to every row is the same in every strip.  Nobody adds strips up under encryption: each
comes back with a mask of its own, and whoever opens them adds up values and so masks, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Strips:
    """How a block of bins lies in the slots of a ciphertext; public."""

    n_bins: int
    n_slots: int

    @property
    def n(self) -> int:
        """How many there are."""
        return self.n_slots // self.n_bins

    def n_ciphertexts(self, n_rows: int) -> int:
        """In which so many rows fit."""
        return -(-n_rows // self.n)

    def across(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """(ciphertexts, slots): each row, (rows, bins), in a strip of its own; 0 in the rest."""
        n_ciphertexts = self.n_ciphertexts(len(rows))
        filled = np.zeros((n_ciphertexts * self.n, self.n_bins), np.uint64)
        filled[: len(rows)] = rows
        slots = np.zeros((n_ciphertexts, self.n_slots), np.uint64)
        slots[:, : self.n * self.n_bins] = filled.reshape(n_ciphertexts, -1)
        return slots

    def alike(self, row: NDArray[Any]) -> NDArray[np.uint64]:
        """(slots,): the same row in every strip; 0 in the slots that nobody uses."""
        slots = np.zeros(self.n_slots, np.uint64)
        slots[: self.n * self.n_bins] = np.tile(row, self.n)
        return slots

    def total(self, slots: NDArray[np.uint64], modulus: int) -> NDArray[np.uint64]:
        """(bins,): the sum over all strips; of a modulus below 2^59."""
        strips = slots[: self.n * self.n_bins].reshape(self.n, self.n_bins)
        total: NDArray[np.uint64] = strips.sum(axis=0) % np.uint64(modulus)
        return total
