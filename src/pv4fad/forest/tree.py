"""The nodes of a tree (protocol.md §11.1).  Only the payment network ever sees them.

    Node = Leaf | Split(feature, cut, below, above) | BankNode(condition, subtree)

A *bank node* asks the bank: in which of my disjoint sets of atoms is the record of the account on
this side of the transaction?  Everything else, an absent account included, is the *rest*.  All
its branches carry the same PNS subtree (mirrored branches), so the type holds that subtree once.
Each leaf of the subtree stands for a *group*: one red leaf per set and one for the rest.  A leaf
without a bank node above it is *green*.

To send many transactions down at once, a tree becomes a table of nodes (`RoutingTable`).  All
transactions of a chunk step down one level at a time; a leaf is its own child, so that paths of
different lengths end together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import AtomSet

_CHUNK = 1 << 15  # transactions at a time: what a level touches stays in the processor's cache


@dataclass(frozen=True)
class BankCondition:
    """A side of the row, by number, and disjoint sets of atoms; what is in no set is the rest."""

    side: int
    sets: tuple[AtomSet, ...]

    def __post_init__(self) -> None:
        atoms = list(chain.from_iterable(self.sets))
        if not self.sets or not all(self.sets):
            raise ParameterError("a bank condition needs at least one set, and no set is empty")
        if len(set(atoms)) < len(atoms):
            raise ParameterError("the sets of a bank condition must not overlap")
        if any(list(one_set) != sorted(one_set) for one_set in self.sets):
            raise ParameterError("a set of atoms is written in ascending order")


@dataclass(frozen=True)
class Leaf:
    """End of a PNS path: a green leaf, or below a bank node a group."""


@dataclass(frozen=True)
class Split:
    """A test of the payment network: x[feature] < cut goes to `below`, all else to `above`.

    Features are float32, so the cut must be one exactly; a missing value (NaN) goes above.
    """

    feature: int
    cut: float
    below: Node
    above: Node


@dataclass(frozen=True)
class BankNode:
    """A bank condition over the one PNS subtree that all its branches carry."""

    condition: BankCondition
    subtree: Node


Node = Leaf | Split | BankNode


def conditions_of_groups(node: Node) -> Iterator[BankCondition]:
    """The condition of each group of a tree, left to right."""
    match node:
        case Split(_, _, below, above):
            yield from conditions_of_groups(below)
            yield from conditions_of_groups(above)
        case BankNode(condition, subtree):
            yield from (condition for _ in range(count_leaves(subtree)))


def count_leaves(node: Node) -> int:
    """Ends of PNS paths: green leaves and groups."""
    match node:
        case Split(_, _, below, above):
            return count_leaves(below) + count_leaves(above)
        case BankNode(_, subtree):
            return count_leaves(subtree)
    return 1


def count_groups(node: Node) -> int:
    """Groups of a tree, dummies not counted."""
    match node:
        case Split(_, _, below, above):
            return count_groups(below) + count_groups(above)
        case BankNode(_, subtree):
            return count_leaves(subtree)
    return 0


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
