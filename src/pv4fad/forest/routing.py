"""Sending many transactions down many trees at once.

A tree is a table of nodes.  All transactions of a chunk step down one level at a time; a leaf is
its own child, so that paths of different lengths end together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.tree import BankNode, Node, Split

_CHUNK = 1 << 15  # transactions at a time: what a level touches stays in the processor's cache


@dataclass(frozen=True)
class RoutingTable:
    """One tree as arrays over its nodes; node 0 is the root.

    `child[2·node]` is taken where x[feature] < cut, `child[2·node + 1]` otherwise.
    """

    depth: int
    feature: NDArray[np.intp]
    cut: NDArray[np.float32]
    child: NDArray[np.intp]
    code: NDArray[np.int32]


def routing_table(tree: Node, first_group: int, first_green: int) -> RoutingTable:
    """The tree as arrays.  A bank node does not route: all its branches carry one subtree."""
    rows: list[tuple[int, float, int, int, int]] = []  # feature, cut, below, above, leaf code
    next_group, next_green = first_group, first_green
    deepest = 0

    def add(node: Node, below_bank: bool, depth: int) -> int:
        nonlocal next_group, next_green, deepest
        while isinstance(node, BankNode):
            node, below_bank = node.subtree, True
        here = len(rows)
        if isinstance(node, Split):
            rows.append((0, 0.0, 0, 0, 0))  # takes its place before its children
            below = add(node.below, below_bank, depth + 1)
            above = add(node.above, below_bank, depth + 1)
            rows[here] = (node.feature, node.cut, below, above, 0)
            return here
        code = next_group if below_bank else -1 - next_green
        next_group += below_bank
        next_green += not below_bank
        deepest = max(deepest, depth)
        rows.append((0, 0.0, here, here, code))
        return here

    add(tree, below_bank=False, depth=0)
    feature, cut, below, above, code = zip(*rows, strict=True)
    return RoutingTable(
        depth=deepest,
        feature=np.array(feature, np.intp),
        cut=np.array(cut, np.float32),
        child=np.array([below, above], np.intp).T.ravel(),
        code=np.array(code, np.int32),
    )


def route(tables: Sequence[RoutingTable], features: NDArray[np.float32]) -> NDArray[np.int32]:
    """The leaf code of each row of `features` in each tree."""
    n_rows, n_columns = features.shape
    codes = np.empty((n_rows, len(tables)), np.int32)
    for start in range(0, n_rows, _CHUNK):
        block = np.ascontiguousarray(features[start : start + _CHUNK])
        values = block.ravel()
        row_start = np.arange(len(block)) * n_columns
        for tree, table in enumerate(tables):
            node = np.zeros(len(block), np.intp)
            for _ in range(table.depth):
                value = values[row_start + table.feature[node]]
                # `not <` rather than `>=`: a missing value compares false and goes above.
                node = table.child[2 * node + ~(value < table.cut[node])]
            codes[start : start + _CHUNK, tree] = table.code[node]
    return codes
