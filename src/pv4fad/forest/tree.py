"""The nodes of a tree (protocol.md §11.1).  Only the payment network ever sees them.

    Node = Leaf | Split(feature, cut, below, above) | BankNode(condition, subtree)

A *bank node* asks the bank: in which of my disjoint sets of atoms is the record of the account on
this side of the transaction?  Everything else, an absent account included, is the *rest*.  All
its branches carry the same PNS subtree (mirrored branches), so the type holds that subtree once.
Each leaf of the subtree stands for a *group*: one red leaf per set and one for the rest.  A leaf
without a bank node above it is *green*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import AtomSet


class Side(IntEnum):
    """Which account of a transaction; also the column in arrays with one column per side."""

    ORDERING = 0
    BENEFICIARY = 1


@dataclass(frozen=True)
class BankCondition:
    """A side and disjoint sets of atoms of one family; whatever is in no set goes to the rest."""

    side: Side
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
