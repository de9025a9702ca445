"""Decision trees as plain arrays, and scoring with them in numpy.

    total(x) = Σ over trees of the value of the leaf that x reaches

The nodes of a tree stand in breadth-first order, so its k-th inner node (k = 0, 1, ...) has the
children 2k + 1 (left) and 2k + 2 (right).  Children are therefore not stored, and no array can
describe a cycle or a node that two others share.  A value goes left if it is at most the threshold;
a missing one goes where the node says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError

LEAF = -1
MAX_DEPTH = 64
_ROWS_AT_ONCE = 8192  # a block of rows stays in the processor's cache
_LEVELS_BETWEEN = 4  # of descent, before the rows that have reached a leaf are put aside


@dataclass(frozen=True)
class TreeEnsemble:
    """Trees one after the other; checked when made, whether fitted or read."""

    n_features: int
    n_nodes: NDArray[np.int32] = field(repr=False)  # by tree; all that follows by node
    feature: NDArray[np.int16] = field(repr=False)  # that an inner node tests, or LEAF
    threshold: NDArray[np.float32] = field(repr=False)  # of an inner node
    missing_right: NDArray[np.bool_] = field(repr=False)  # where an inner node sends what is NaN
    value: NDArray[np.float64] = field(repr=False)  # of a leaf
    _left: NDArray[np.int64] = field(init=False, repr=False)  # a leaf has itself on its left
    _column: NDArray[np.int64] = field(init=False, repr=False)  # of a leaf: any
    _limit: NDArray[np.float32] = field(init=False, repr=False)  # of a leaf: +∞, so it goes left
    _depth: NDArray[np.int64] = field(init=False, repr=False)  # by tree

    def __post_init__(self) -> None:
        by_node = (self.feature, self.threshold, self.missing_right, self.value)
        if any(len(array) != self.n_nodes.sum() for array in by_node):
            raise DataError("trees: the arrays are not of the length that the sizes of trees say")
        if (self.n_nodes < 1).any() or (self.n_nodes % 2 == 0).any():
            raise DataError("trees: a tree has an odd number of nodes")
        if ((self.feature < LEAF) | (self.feature >= self.n_features)).any():
            raise DataError(f"trees: a node tests none of the {self.n_features} features")
        if np.isnan(self.threshold).any() or not np.isfinite(self.value).all():
            raise DataError("trees: a threshold or a value is not a number")
        is_leaf = self.feature == LEAF
        object.__setattr__(self, "_left", self._left_children())
        object.__setattr__(self, "_column", np.maximum(self.feature, 0).astype(np.int64))
        object.__setattr__(self, "_limit", np.where(is_leaf, np.float32(np.inf), self.threshold))
        object.__setattr__(self, "_depth", self._depths())

    @classmethod
    def of(cls, n_features: int, trees: Sequence[TreeEnsemble]) -> TreeEnsemble:
        """All trees of several ensembles."""

        def joined(name: str, dtype: type) -> NDArray[Any]:
            arrays = (getattr(tree, name) for tree in trees)
            return np.concatenate([np.empty(0, dtype), *arrays])

        return cls(
            n_features,
            joined("n_nodes", np.int32),
            joined("feature", np.int16),
            joined("threshold", np.float32),
            joined("missing_right", np.bool_),
            joined("value", np.float64),
        )

    def __len__(self) -> int:
        return len(self.n_nodes)

    def total(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """The sum of leaf values for each row."""
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"rows of shape {rows.shape}; the trees test {self.n_features} columns")
        out = np.empty(len(rows))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = np.ascontiguousarray(rows[start : start + _ROWS_AT_ONCE], np.float32)
            out[start : start + len(block)] = self._block_total(block)
        return out

    def _block_total(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        cells = block.ravel()
        is_missing = bool(np.isnan(cells).any())
        row, row_start = np.arange(len(block)), np.arange(len(block)) * self.n_features
        total = np.zeros(len(block))
        for root, depth in zip(self._roots(), self._depth, strict=True):
            who, start, node = row, row_start, np.full(len(block), root)
            for level in range(depth):
                if level % _LEVELS_BETWEEN == _LEVELS_BETWEEN - 1:
                    arrived = self.feature[node] == LEAF
                    total[who[arrived]] += self.value[node[arrived]]
                    who, start, node = who[~arrived], start[~arrived], node[~arrived]
                tested = cells[start + self._column[node]]
                goes_right = tested > self._limit[node]
                if is_missing:
                    goes_right |= np.isnan(tested) & self.missing_right[node]
                node = self._left[node] + goes_right
            total[who] += self.value[node]
        return total

    def _roots(self) -> NDArray[np.int64]:
        return np.cumsum(self.n_nodes, dtype=np.int64) - self.n_nodes

    def _left_children(self) -> NDArray[np.int64]:
        is_inner = self.feature != LEAF
        node = np.arange(len(is_inner))
        root = np.repeat(self._roots(), self.n_nodes)
        inner_before = np.concatenate([[0], np.cumsum(is_inner)])
        left = np.where(is_inner, root + 2 * (inner_before[:-1] - inner_before[root]) + 1, node)
        n_inner = inner_before[self._roots() + self.n_nodes] - inner_before[self._roots()]
        if (2 * n_inner + 1 != self.n_nodes).any() or (is_inner & (left <= node)).any():
            raise DataError("trees: inner nodes and leaves do not make up a tree")
        return left

    def _depths(self) -> NDArray[np.int64]:
        depth = np.zeros(len(self), np.int64)
        node, tree = self._roots(), np.arange(len(self))
        for level in range(MAX_DEPTH + 1):
            is_inner = self.feature[node] != LEAF
            node, tree = self._left[node[is_inner]], tree[is_inner]
            if not len(node):
                return depth
            depth[tree] = level + 1
            node, tree = np.concatenate([node, node + 1]), np.concatenate([tree, tree])
        raise DataError(f"trees: a tree is deeper than {MAX_DEPTH}")


def breadth_first(
    n_features: int,
    children: tuple[NDArray[np.int64], NDArray[np.int64]],
    feature: NDArray[np.int64],
    *,
    threshold: NDArray[np.float64],
    missing_right: NDArray[np.bool_],
    value: NDArray[np.float64],
) -> TreeEnsemble:
    """One tree, given by left and right children.  Node 0 is the root; a leaf has feature < 0."""
    order = np.concatenate(list(_levels(*children, feature)))
    is_leaf = feature[order] < 0
    return TreeEnsemble(
        n_features,
        np.array([len(order)], np.int32),
        np.where(is_leaf, LEAF, feature[order]).astype(np.int16),
        np.where(is_leaf, np.float32(0), largest_float32_not_above(threshold[order])),
        missing_right[order] & ~is_leaf,
        np.where(is_leaf, value[order], 0.0),
    )


def _levels(
    left: NDArray[np.int64], right: NDArray[np.int64], feature: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    nodes = np.zeros(1, np.int64)
    while len(nodes):
        yield nodes
        inner = nodes[feature[nodes] >= 0]
        nodes = np.stack([left[inner], right[inner]], axis=1).ravel()


def largest_float32_not_above(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """For float32 numbers x: x ≤ the result exactly where x ≤ value."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    below = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(rounded.astype(np.float64) > values, below, rounded)
