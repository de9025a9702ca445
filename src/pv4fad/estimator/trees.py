"""Random trees whose structure knows nothing of the data, and the counts in their leaves.

A tree is a short list of tests on different features; all nodes of a level ask the same one, so
that a leaf is a combination of branches.  A test with b branches stands for ⌈log2 b⌉ binary levels,
and a tree has at most 2^max_depth leaves, like any binary tree of that depth.  To a row this is the
path of random tests that it would meet in any random tree; but features can be dealt out evenly,
and rows reach their leaves by table look-ups.

Every row falls into exactly one leaf of every tree: one row added or removed moves all counts
together by `n_trees` in L1, one per tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from pv4fad.estimator.domains import Domain

Codes = Sequence[NDArray[np.intp]]
"""For each feature the codes of all rows."""


@dataclass(frozen=True)
class Tree:
    """Tests in order: the feature, the branch of each of its codes, the number of branches."""

    features: tuple[int, ...]
    branch_of: tuple[NDArray[np.intp], ...]
    shape: tuple[int, ...]

    @property
    def n_leaves(self) -> int:
        return prod(self.shape)

    def leaves(self, codes: Codes, n_rows: int) -> NDArray[np.intp]:
        """The leaf of each row, 0 … n_leaves−1: its branches as digits, the last test's lowest."""
        leaf = np.zeros(n_rows, np.intp)
        for feature, branch_of, n_branches in zip(
            self.features, self.branch_of, self.shape, strict=True
        ):
            leaf *= n_branches
            leaf += branch_of[codes[feature]]
        return leaf


def draw_trees(
    domains: Sequence[Domain],
    n_trees: int,
    max_depth: int,
    max_branches: int,
    rng: np.random.Generator,
) -> tuple[Tree, ...]:
    """Random trees; a feature is asked again only when all have been asked as often."""
    times_asked = np.zeros(len(domains))
    trees = []
    for _ in range(n_trees):
        tests = []
        levels_left = max_depth
        for feature in np.argsort(times_asked + rng.random(len(domains))):
            domain = domains[feature]
            widest = min(max_branches, domain.n_groups, 2**levels_left)
            if widest < 2:
                continue
            tests.append((int(feature), domain.draw_branches(widest, rng), widest))
            times_asked[feature] += 1
            levels_left -= (widest - 1).bit_length()
        features, branch_of, shape = zip(*tests, strict=True) if tests else ((), (), ())
        trees.append(Tree(features, branch_of, shape))
    return tuple(trees)


def leaf_counts(
    trees: Sequence[Tree], codes: Codes, label: NDArray[np.intp], n_classes: int
) -> list[NDArray[np.int64]]:
    """For each tree the rows of each class in each leaf, shape (n_leaves, n_classes)."""
    counts = []
    for tree in trees:
        cell = tree.leaves(codes, len(label)) * n_classes + label
        count = np.bincount(cell, minlength=tree.n_leaves * n_classes)
        counts.append(count.reshape(tree.n_leaves, n_classes))
    return counts
