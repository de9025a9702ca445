"""The forest: trees, their groups, and what others may see of them (protocol.md §11.1).

What others see is fixed by `PublicSizes`, never by the trees: every tree is padded with dummy
groups, which no transaction reaches, and the list of distinct sets is padded by repetition.

    group g          belongs to tree g // groups_per_tree; in a tree left to right, dummies last
    sum (g, c)       has number g·n_sets + c
    red leaf (g, c)  has number g·(n_sets + 1) + c; the rest is c = n_sets
    leaf code        of a routed transaction: group g as g ≥ 0, green leaf i as -1 - i
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.tree import (
    BankCondition,
    BankNode,
    Node,
    RoutingTable,
    Split,
    conditions_of_groups,
    count_groups,
    count_leaves,
    route,
    routing_table,
)
from pv4fad.schema import MOST_CLASSES

MAX_HEIGHT = 16


@dataclass(frozen=True)
class Group:
    """The red leaves below one bank node that share a PNS path."""

    tree: int
    side: int
    sets: tuple[AtomSet, ...]


@dataclass(frozen=True)
class PublicSizes:
    """All that banks and the aggregator can tell about a forest: from its configuration alone."""

    n_trees: int
    groups_per_tree: int
    n_sets: int
    n_distinct_sets: int
    n_atoms: int
    n_sides: int = 2

    def __post_init__(self) -> None:
        for name in ("n_trees", "groups_per_tree", "n_atoms", "n_sides"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1")
        if not 1 <= self.n_sets <= MOST_CLASSES:
            raise ParameterError(f"n_sets must be from 1 to {MOST_CLASSES}")
        if self.n_distinct_sets < self.n_sets:
            raise ParameterError("n_distinct_sets must be at least n_sets")

    @property
    def n_groups(self) -> int:
        return self.n_trees * self.groups_per_tree

    @property
    def sums_per_tree(self) -> int:
        return self.groups_per_tree * self.n_sets

    @property
    def n_sums(self) -> int:
        return self.n_groups * self.n_sets

    @property
    def n_leaves(self) -> int:
        """Red leaves; green ones are the payment network's own affair."""
        return self.n_groups * (self.n_sets + 1)


@dataclass(frozen=True)
class Forest:
    """Immutable trees with everything that follows from them; checked when made."""

    trees: tuple[Node, ...]
    feature_names: tuple[str, ...]
    sizes: PublicSizes

    def __post_init__(self) -> None:
        if len(self.trees) != self.sizes.n_trees:
            raise ParameterError(f"{len(self.trees)} trees, but n_trees is {self.sizes.n_trees}")
        for index, tree in enumerate(self.trees):
            self._check(tree, f"tree {index}", below_bank=False, depth=0)
            n_groups = count_groups(tree)
            if n_groups > self.sizes.groups_per_tree:
                raise ParameterError(
                    f"tree {index} has {n_groups} groups; "
                    f"groups_per_tree allows {self.sizes.groups_per_tree}"
                )
        if len(self._used_sets) > self.sizes.n_distinct_sets:
            raise ParameterError(
                f"the forest uses {len(self._used_sets)} distinct sets; "
                f"n_distinct_sets allows {self.sizes.n_distinct_sets}"
            )

    def _check(self, node: Node, where: str, *, below_bank: bool, depth: int) -> None:
        if depth > MAX_HEIGHT:
            raise ParameterError(f"{where} is higher than {MAX_HEIGHT}")
        match node:
            case Split(feature, cut, below, above):
                if not 0 <= feature < len(self.feature_names):
                    raise ParameterError(f"{where} tests feature {feature}, which does not exist")
                if not np.isfinite(cut) or float(np.float32(cut)) != cut:
                    raise ParameterError(f"{where}: the cut {cut} is not a finite float32")
                for child in (below, above):
                    self._check(child, where, below_bank=below_bank, depth=depth + 1)
            case BankNode(condition, subtree):
                if below_bank:
                    raise ParameterError(f"{where} has two bank nodes on one path")
                self._check_condition(condition, where)
                self._check(subtree, where, below_bank=True, depth=depth + 1)

    def _check_condition(self, condition: BankCondition, where: str) -> None:
        if len(condition.sets) != self.sizes.n_sets:
            raise ParameterError(
                f"{where}: a bank condition with {len(condition.sets)} sets; "
                f"every one must have n_sets = {self.sizes.n_sets}"
            )
        n_atoms, n_sides = self.sizes.n_atoms, self.sizes.n_sides
        if not all(0 <= atom < n_atoms for atom in chain.from_iterable(condition.sets)):
            raise ParameterError(f"{where}: an atom outside 0..{n_atoms - 1}")
        if not 0 <= condition.side < n_sides:
            raise ParameterError(f"{where}: a side outside 0..{n_sides - 1}")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, dummies included: a dummy is like any other, but nothing reaches it."""
        reachable = [list(conditions_of_groups(tree)) for tree in self.trees]
        # With a condition that is in use a dummy adds no distinct set.
        some_set = tuple((atom,) for atom in range(self.sizes.n_sets))
        filler = next(chain.from_iterable(reachable), BankCondition(0, some_set))
        return tuple(
            Group(tree, condition.side, condition.sets)
            for tree, conditions in enumerate(reachable)
            for condition in conditions + [filler] * (self.sizes.groups_per_tree - len(conditions))
        )

    @cached_property
    def group_sides(self) -> NDArray[np.int8]:
        """The side that each group tests, shape (n_groups,)."""
        return np.array([group.side for group in self.groups], np.int8)

    @cached_property
    def _used_sets(self) -> tuple[AtomSet, ...]:
        return tuple(sorted(set(chain.from_iterable(group.sets for group in self.groups))))

    @cached_property
    def distinct_sets(self) -> tuple[AtomSet, ...]:
        """The sets in use, padded to n_distinct_sets by repeating the first."""
        padding = self.sizes.n_distinct_sets - len(self._used_sets)
        return self._used_sets + self._used_sets[:1] * padding

    @cached_property
    def set_index(self) -> NDArray[np.int64]:
        """(n_groups, n_sets): where each set of each group stands in `distinct_sets`."""
        position = {one_set: index for index, one_set in enumerate(self._used_sets)}
        return np.array([[position[one_set] for one_set in group.sets] for group in self.groups])

    @property
    def n_green(self) -> int:
        """Number of green leaves of all trees."""
        return sum(count_leaves(tree) - count_groups(tree) for tree in self.trees)

    def route(self, features: NDArray[np.float32]) -> NDArray[np.int32]:
        """The leaf code of each transaction in each tree, shape (n_transactions, n_trees)."""
        if features.ndim != 2 or features.shape[1] != len(self.feature_names):
            raise ParameterError(
                f"features of shape {features.shape}; "
                f"the forest tests {len(self.feature_names)} columns"
            )
        return route(self._tables, np.asarray(features, np.float32))

    @cached_property
    def _tables(self) -> tuple[RoutingTable, ...]:
        tables, first_green = [], 0
        for index, tree in enumerate(self.trees):
            table = routing_table(tree, index * self.sizes.groups_per_tree, first_green)
            tables.append(table)
            first_green += count_leaves(tree) - count_groups(tree)
        return tuple(tables)
