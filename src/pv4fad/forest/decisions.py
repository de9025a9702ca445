"""Scoring by decisions: what the payment network asks once the labels of red leaves are released.

It knows how every leaf votes, so for a payment and each of its sides it computes the majority that
the payment *would* have if that account were of class k and the account on the other side were
ordinary.  A_s is the set of classes k of side s for which that majority is label 1:

    ordinary in A_s    the payment alerts as it is (then ordinary is in both sets): ask nothing
    A_s empty          this side cannot change anything: ask nothing
    otherwise          ask the bank one bit: is the account's class in A_s?

A payment alerts if it alerts alone or if one of the bits is 1.  Two accounts that are both unusual
are never judged together, and no record takes an alert back: on a few payments that differs from
the joint vote (`TrustedThirdParty.decisions` counts them).  The sets of a forest are no chain:
neither of two has to hold the other, so answers about one account to several questions can tell
its class.

A *class* is here what the bank conditions tell apart: atoms that are in the same sets, or no
record.  The one that holds atom 0 is ordinary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.structure import Forest
from pv4fad.forest.votes import green_votes, reached_groups

NOTHING = -1  # to ask


class AccountSet(NamedTuple):
    """What a bank is asked about: whether an account has one of these atoms, or is absent."""

    atoms: AtomSet
    absent: bool


@dataclass(frozen=True)
class Decisions:
    """What is decided and what has to be asked, for each payment (n,) and side (n, sides).

    `sets`: the few different sets that are asked about; `set_of` is an index into them or
    `NOTHING`.  `share_alone`: the share of trees that vote 1 with all accounts ordinary.
    """

    alert_alone: NDArray[np.bool_] = field(repr=False)
    set_of: NDArray[np.int64] = field(repr=False)
    sets: tuple[AccountSet, ...]
    share_alone: NDArray[np.float64] = field(repr=False)

    @property
    def asks(self) -> NDArray[np.bool_]:
        """(n, sides): the sides that are asked about."""
        asks: NDArray[np.bool_] = self.set_of != NOTHING
        return asks

    def alerts(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The payments that alert, given the bits (n, sides); only those that were asked count."""
        alerts: NDArray[np.bool_] = self.alert_alone | (answers & self.asks).any(axis=1)
        return alerts


def account_classes(forest: Forest) -> tuple[AccountSet, ...]:
    """The classes that the bank conditions tell apart, each as the accounts in it; the ordinary
    one, which holds atom 0, first."""
    used = sorted(set(forest.distinct_sets))
    members: dict[tuple[bool, ...], list[int]] = {}
    for atom in range(forest.sizes.n_atoms):
        members.setdefault(tuple(atom in one_set for one_set in used), []).append(atom)
    nowhere = (False,) * len(used)  # an absent account is in no set
    members.setdefault(nowhere, [])
    return tuple(AccountSet(tuple(atoms), sets == nowhere) for sets, atoms in members.items())


def decision_sets(
    forest: Forest,
    codes: NDArray[np.int32],
    red_labels: NDArray[np.int8],
    green_labels: NDArray[np.int8],
) -> Decisions:
    """What to ask about payments with these leaf codes (n, n_trees).

    `red_labels` (n_groups, n_sets + 1) as released, noise included; `green_labels` (n_green,).
    """
    classes = account_classes(forest)
    label_of = _labels_by_class(forest, classes, red_labels)
    sides = range(forest.sizes.n_sides)
    votes = [_side_votes(reached_groups(forest, codes, side), label_of) for side in sides]
    green = green_votes(codes, green_labels)
    alone = green + sum(side[:, 0] for side in votes)
    alert_alone = 2 * alone > forest.sizes.n_trees
    # A set of classes as a number: bit k stands for class k.
    bit = 1 << np.arange(len(classes), dtype=np.int64)
    masks = np.stack(
        [
            (2 * (alone[:, np.newaxis] - side[:, :1] + side) > forest.sizes.n_trees) @ bit
            for side in votes
        ],
        axis=1,
    )
    masks[alert_alone] = 0
    asked = np.unique(masks)
    asked = asked[asked > 0]
    set_of = np.where(masks > 0, np.searchsorted(asked, masks), NOTHING)
    sets = tuple(_union(classes, int(mask)) for mask in asked)
    return Decisions(alert_alone, set_of, sets, alone / forest.sizes.n_trees)


def _labels_by_class(
    forest: Forest, classes: tuple[AccountSet, ...], red_labels: NDArray[np.int8]
) -> NDArray[np.int8]:
    """(n_groups + 1, n_classes): how each group votes for an account of each class.

    The last row, which code -1 reads, is no group and casts no vote.
    """
    sizes = forest.sizes
    if red_labels.shape != (sizes.n_groups, sizes.n_sets + 1):
        raise ParameterError(f"red labels of shape {red_labels.shape} do not fit the forest")
    is_in = np.array(
        [
            [bool(set(members.atoms) & set(asked)) for asked in forest.distinct_sets]
            for members in classes
        ]
    )
    label_of = np.zeros((sizes.n_groups + 1, len(classes)), np.int8)
    label_of[:-1] = red_labels[:, -1:]
    for index in range(sizes.n_sets):
        member = is_in[:, forest.set_index[:, index]].T
        label_of[:-1] = np.where(member, red_labels[:, index : index + 1], label_of[:-1])
    return label_of


def _side_votes(reached: NDArray[np.int32], label_of: NDArray[np.int8]) -> NDArray[np.int64]:
    """(n, n_classes): votes for 1 of one side, for each class that its account might have."""
    votes = np.zeros((len(reached), label_of.shape[1]), np.int64)
    for column in reached.T:
        votes += label_of[column]
    return votes


def _union(classes: tuple[AccountSet, ...], mask: int) -> AccountSet:
    chosen = [one for number, one in enumerate(classes) if mask >> number & 1]
    atoms = sorted(atom for members in chosen for atom in members.atoms)
    return AccountSet(tuple(atoms), any(members.absent for members in chosen))
