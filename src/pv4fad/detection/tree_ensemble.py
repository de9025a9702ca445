"""Decision trees as plain arrays, and scoring with them in numpy.

    total(x) = Σ over trees of the value of the leaf that x reaches

The nodes of a tree stand in breadth-first order, so its k-th inner node (k = 0, 1, ...) has the
children 2k + 1 (left) and 2k + 2 (right).  Children are therefore not stored, and no array can
describe a cycle or a node that two others share.  A value goes left if it is at most the threshold;
a missing one goes where the node says.

Many rows go through one tree after the other: at each node they are parted in two, and no node is
looked at that none of them reaches.  A few rows go through all trees at once, one node at a time:
192 trees then take 2 ms for 50 rows instead of 30.  Blocks of rows are scored in threads.  A row's
sum is always taken in the order of the trees, so it depends neither on the threads nor on the other
rows nor on which way it went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.workers import available_cores

LEAF = -1
MAX_DEPTH = 64
_ROWS_AT_ONCE = 32_768  # many, because every node costs some time, and few enough for the cache
_FEW_ROWS = 1_000  # above it, tree by tree is faster
_STEPS = 5  # of few rows, before those that have reached a leaf are left out


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
        object.__setattr__(self, "_left", self._left_children())
        self._check_depth()

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
        if len(rows) <= _FEW_ROWS:
            return self._few_total(rows)
        blocks = np.array_split(rows, -(-len(rows) // _ROWS_AT_ONCE) or 1)
        if len(blocks) == 1:
            return self._block_total(rows)
        with ThreadPoolExecutor(available_cores()) as threads:
            return np.concatenate(list(threads.map(self._block_total, blocks)))

    def _block_total(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        columns = np.ascontiguousarray(block.T, np.float32)
        is_missing = np.isnan(columns)
        has_missing = np.asarray(is_missing.any(axis=1))
        feature, left, value = self._nodes
        total, everyone = np.zeros(len(block)), np.arange(len(block))
        for root in self._roots().tolist():
            waiting = [(root, everyone)]
            while waiting:
                node, rows = waiting.pop()
                column = feature[node]
                if column == LEAF:
                    total[rows] += value[node]
                    continue
                goes_right = columns[column].take(rows) > self.threshold[node]
                if has_missing[column] and self.missing_right[node]:
                    goes_right |= is_missing[column].take(rows)
                right = rows[goes_right]
                if len(right) < len(rows):
                    waiting.append((left[node], rows[~goes_right] if len(right) else rows))
                if len(right):
                    waiting.append((left[node] + 1, right))
        return total

    def _few_total(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        reached = self._walk(rows, *self._start(rows))
        return _in_order(self.value.take(reached).reshape(len(self), len(rows)))

    def totals_without(
        self, rows: NDArray[np.float32], usual: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """(rows, columns): the sum for each row if this column had its usual value.

        A row goes again only through trees that have looked at the column, from there on.
        """
        row, node = self._start(rows)
        steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        reached = self._walk(rows, row, node, steps=steps)
        walker, node = (np.concatenate(part) for part in zip(*steps, strict=True))
        column = self.feature.take(node).astype(np.int64)
        inner = np.flatnonzero(column != LEAF)
        pairs = walker.take(inner) * self.n_features + column.take(inner)
        pairs, first = np.unique(pairs, return_index=True)  # the first is nearest to the root
        walker, column = np.divmod(pairs, self.n_features)
        start = node.take(inner).take(first)
        again = self._walk(rows, row.take(walker), start, (column, usual.take(column)))
        by_tree = np.repeat(self.value.take(reached)[:, np.newaxis], self.n_features, axis=1)
        by_tree[walker, column] = self.value.take(again)
        return _in_order(by_tree.reshape(len(self), len(rows), self.n_features))

    def _start(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A walker for each tree and row: where its row begins, and the root."""
        row = np.tile(np.arange(len(rows)) * self.n_features, len(self))
        return row, np.repeat(self._roots(), len(rows))

    def _walk(
        self,
        rows: NDArray[np.float32],
        row: NDArray[np.int64],
        node: NDArray[np.int64],
        other: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None,
        steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None,
    ) -> NDArray[np.int64]:
        """The leaf that each walker reaches.

        `other`: a column, and what it holds instead of what is in the row.  `steps` gets the
        walkers and their nodes, step by step.
        """
        feature, left, threshold, missing_right = self._steps
        values = np.ascontiguousarray(rows, np.float32).reshape(-1)
        some_missing = bool(np.isnan(values).any())
        reached, walking = node.copy(), np.arange(len(node))
        while len(walking):
            for _ in range(_STEPS):
                if steps is not None:
                    steps.append((walking, node))
                column = feature.take(node)
                value = values.take(row + column)
                if other is not None:
                    value = np.where(column == other[0], other[1], value)
                goes_right = value > threshold.take(node)
                if some_missing:
                    goes_right |= np.isnan(value) & missing_right.take(node)
                node = left.take(node) + goes_right
            reached[walking] = node
            inner = np.flatnonzero(self.feature.take(node) != LEAF)
            node, row, walking = node.take(inner), row.take(inner), walking.take(inner)
            if other is not None:
                other = other[0].take(inner), other[1].take(inner)
        return reached

    @cached_property
    def _steps(self) -> tuple[NDArray[Any], ...]:
        """Feature, left child, threshold, where a missing value goes; a leaf leads to itself."""
        is_leaf = self.feature == LEAF
        return (
            np.where(is_leaf, 0, self.feature).astype(np.int64),
            self._left,
            np.where(is_leaf, np.float32(np.inf), self.threshold),
            self.missing_right & ~is_leaf,
        )

    @cached_property
    def _nodes(self) -> tuple[list[int], list[int], list[float]]:
        """Feature, left child and value as lists: single entries of arrays are slow to read."""
        return self.feature.tolist(), self._left.tolist(), self.value.tolist()

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

    def _check_depth(self) -> None:
        node = self._roots()
        for _ in range(MAX_DEPTH + 1):
            left = self._left[node[self.feature[node] != LEAF]]
            if not len(left):
                return
            node = np.concatenate([left, left + 1])
        raise DataError(f"trees: a tree is deeper than {MAX_DEPTH}")


def _in_order(by_tree: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over trees; that of an array may be taken in another order."""
    return np.cumsum(by_tree, axis=0)[-1] if len(by_tree) else np.zeros(by_tree.shape[1:])


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
