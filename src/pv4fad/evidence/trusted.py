"""The trusted third party of the default model: all data in one place, a few lines of numpy.

The oracle.  The private protocol must give exactly its counts, or its counts plus the noise, and
exactly its answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.cells import CountedAccounts


def trusted_counts(
    counted: CountedAccounts, atom_of: NDArray[np.integer], sets: Sequence[Sequence[int]]
) -> NDArray[np.int64]:
    """(cells, sets).  `atom_of`: the atom of the record that each key finds, -1 for none."""
    counts = np.zeros((counted.n_cells, len(sets)), np.int64)
    for number, one in enumerate(sets):
        is_in = np.isin(atom_of[counted.key], one)
        counts[:, number] = np.bincount(counted.cell[is_in], minlength=counted.n_cells)
    return counts


def trusted_bits(
    atom_of: NDArray[np.integer], atoms: Sequence[int], *, absent: bool
) -> NDArray[np.int8]:
    """Whether each of these records has one of the atoms; `absent`: or there is none."""
    inside = np.isin(atom_of, atoms)
    return np.asarray(inside | (absent & (atom_of == -1)), np.int8)
