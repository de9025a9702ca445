"""The plain arithmetic between count and compare (protocol.md §5.3, §11.3), all modulo t.

A group has a sum for each set and a leaf for each set and one for the rest; the rest's noisy sum is
N_path minus those of the sets.  Sums are (n_groups, n_sets), leaves (n_groups, n_sets + 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]


def noisy_share(noise: NDArray[np.int64], own: Residues, mask: Residues, modulus: int) -> Residues:
    """Bank: noise − q + mask.  Uniform with a mask; with one bank only, q alone makes it so."""
    return ((noise - own.astype(np.int64) + mask.astype(np.int64)) % modulus).astype(np.uint64)


def blinded_leaves(sums: Residues, r: Residues, modulus: int) -> Residues:
    """Aggregator: V_c + r for the leaf of every set, −Σ_c V_c + r for the rest."""
    v = sums.astype(np.int64)
    leaves = np.concatenate([v, -v.sum(axis=1, keepdims=True)], axis=1)
    return ((leaves + r.reshape(leaves.shape).astype(np.int64)) % modulus).astype(np.uint64)


def masked_leaves(
    blinded: Residues, own: Residues, n_path: NDArray[np.int64], modulus: int
) -> Residues:
    """PaymentNetwork: w = D + r, by adding p to a set's leaf and N_path − Σ_c p to the rest."""
    p = own.astype(np.int64)
    rest = n_path[:, np.newaxis] - p.sum(axis=1, keepdims=True)
    known = np.concatenate([p, rest], axis=1)
    masked: NDArray[np.int64] = (blinded.reshape(known.shape).astype(np.int64) + known) % modulus
    return masked.astype(np.uint64)
