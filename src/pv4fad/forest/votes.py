"""The algebra of scoring (protocol.md §11.6): what one side of a transaction needs from the leaves.

    P_0 = Σ_g p[g, rest]        P_c = Σ_{g uses c} (p[g, c] - p[g, rest])

over the groups g that the transaction reaches on this side, for each distinct set c, so that
vote = P_0 + Σ_c I_c·P_c.  Linear in p: the same for labels and for either share of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.structure import Forest


@dataclass(frozen=True)
class VoteParts:
    """P_0 (n,) and P_c (n, n_distinct_sets), residues modulo t."""

    rest: NDArray[np.int64]
    sets: NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """What a vote total says: share of votes for 1, majority label, share of the majority."""

    score: NDArray[np.float64]
    label: NDArray[np.int8]
    confidence: NDArray[np.float64]


def reached_groups(forest: Forest, codes: NDArray[np.int32], side: int) -> NDArray[np.int32]:
    """(n, n_trees): the group that each tree sends this side to, -1 where it asks no bank for it.

    At most one group per tree, so a row has no group twice.
    """
    # Green codes are negative; they read the side of the first group, and are masked just after.
    tests_side = forest.group_sides[np.maximum(codes, 0)] == side
    return np.where((codes >= 0) & tests_side, codes, np.int32(-1))


def vote_parts(
    forest: Forest, reached: NDArray[np.int32], leaf_values: NDArray[np.int64], modulus: int
) -> VoteParts:
    """P_0 and P_c for each row of `reached`, from one value per red leaf, (n_leaves,)."""
    sizes = forest.sizes
    by_group = leaf_values.reshape(sizes.n_groups, sizes.n_sets + 1).astype(np.int64)
    over_rest = by_group[:, :-1] - by_group[:, -1:]
    rest = np.zeros(len(reached), np.int64)
    sets = np.zeros((len(reached), sizes.n_distinct_sets), np.int64)
    for column in reached.T:
        rows = np.flatnonzero(column >= 0)
        group = column[rows]
        rest[rows] += by_group[group, -1]
        for index in range(sizes.n_sets):
            sets[rows, forest.set_index[group, index]] += over_rest[group, index]
    return VoteParts(rest % modulus, sets % modulus)


def green_votes(codes: NDArray[np.int32], labels: NDArray[np.int8]) -> NDArray[np.int64]:
    """Votes for 1 of the green leaves that each transaction reaches."""
    # Red codes read the last entry, which stands for no vote.
    by_code = np.append(labels, np.int8(0))[np.where(codes < 0, -1 - codes, -1)]
    votes: NDArray[np.int64] = by_code.sum(axis=1, dtype=np.int64)
    return votes


def predictions(total_votes: NDArray[np.int64], n_trees: int) -> Predictions:
    """Score, label and confidence; a tie of votes gives label 0."""
    score = total_votes / n_trees
    label = (2 * total_votes > n_trees).astype(np.int8)
    return Predictions(score, label, np.maximum(score, 1 - score))
