"""What the payment network asks about: a round of questions, or a batch of votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.tables import AccountKey


@dataclass(frozen=True)
class AskedSet:
    """A set of atoms that an account's record may have; `absent`: or no record.

    Every record has exactly one atom.
    """

    atoms: tuple[int, ...]
    absent: bool

    def coefficients(self, n_atoms: int) -> NDArray[np.int64]:
        """c_k = [k in the set] − [absent in the set]; 'is it in the set' is linear in them."""
        factors = np.full(n_atoms, -int(self.absent), np.int64)
        factors[list(self.atoms)] += 1
        return factors


@dataclass(frozen=True)
class Round:
    """One round: whether the record of each of these accounts is in a set; each account once."""

    keys: Sequence[AccountKey] = field(repr=False)
    sets: tuple[AskedSet, ...] = field(repr=False)
    set_of: NDArray[np.int64] = field(repr=False)  # (accounts,): numbers into `sets`


@dataclass(frozen=True)
class ScoringInput:
    """A batch of votes: where each transaction lands in each tree, its account on each side."""

    codes: NDArray[np.int32] = field(repr=False)  # (transactions, trees), as of Forest.route
    keys: Sequence[AccountKey] = field(repr=False)
    key_of: NDArray[np.int64] = field(repr=False)  # (transactions, sides): numbers into `keys`
    layers_at_once: int = 15
    """Public: banks are asked for a multiple of so many layers, however few a batch needs."""
