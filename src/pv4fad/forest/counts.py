"""What the payment network counts for itself (protocol.md §11.2, §4): d, N_path, green labels.

Red leaves need the banks; here each group gets its integer vector d over accounts, from the kept
pairs.  Green leaves involve nobody else's data: all transactions, every tree, no bound; a tree that
keeps a share of the label-0 pairs weighs the label-0 transactions of its green leaves by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.pairs import KeptPairs, check_labels, check_rates
from pv4fad.forest.structure import Forest


@dataclass(frozen=True)
class GroupCounts:
    """For each group a sparse integer vector over account keys, and N_path.

    Group g has d[key[i]] = weight[i] for i in start[g]..start[g+1]-1, keys ascending, each once,
    and 0 for all other keys.
    """

    start: NDArray[np.int64] = field(repr=False)
    key: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.int64] = field(repr=False)
    n_path: NDArray[np.int64] = field(repr=False)

    def of_group(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The account keys of a group with d ≠ 0 or cancelled weights, and their d."""
        part = slice(self.start[group], self.start[group + 1])
        return self.key[part], self.weight[part]


def group_counts(forest: Forest, pairs: KeptPairs, n_keys: int) -> GroupCounts:
    """The vectors d and N_path that follow from the kept pairs."""
    n_groups = forest.sizes.n_groups
    cell, where = np.unique(pairs.group * n_keys + pairs.key, return_inverse=True)
    weight = np.zeros(len(cell), np.int64)
    np.add.at(weight, where, pairs.weight)
    n_path = np.zeros(n_groups, np.int64)
    np.add.at(n_path, pairs.group, pairs.weight)
    group, key = np.divmod(cell, max(n_keys, 1))
    start = np.searchsorted(group, np.arange(n_groups + 1))
    return GroupCounts(start, key, weight, n_path)


def green_labels(
    forest: Forest,
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    class_weights: tuple[int, int] = (1, 1),
    label0_rates: Sequence[float] | None = None,
) -> NDArray[np.int8]:
    """The label of each green leaf of tree t: 1 if w1·N1 > w0·rate_t·N0, over all transactions."""
    check_labels(codes, labels)
    rates = check_rates(forest, label0_rates)
    ones = np.zeros(forest.n_green)
    zeros = np.zeros(forest.n_green)
    for tree, rate in enumerate(rates):
        green = codes[:, tree] < 0
        leaf, label = -1 - codes[green, tree], labels[green]
        ones += np.bincount(leaf[label == 1], minlength=forest.n_green)
        zeros += rate * np.bincount(leaf[label == 0], minlength=forest.n_green)
    return (class_weights[1] * ones > class_weights[0] * zeros).astype(np.int8)
