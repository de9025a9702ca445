"""Classes of account records, and the sets of classes that are counted.

Every record has one class; class 0 is *ordinary*.  What the payment network judges an account by
is its class or, where no bank has the account, *absent*.  `absent` says what that means:

    class       absent is a class of its own: a payment to an account that does not exist is odd
    ordinary    absent is the same as ordinary.  The banks then provide no share for ordinary, and
                nobody can ever tell the two apart

`sets` says what is counted in every cell.  *Kinds* are the classes that the counts tell apart; the
number of accounts of each kind in a cell follows from one count, so it carries one sum's noise:

              absent = class                              absent = ordinary
    fine      {present} {mild} {severe};  3 kinds         {mild} {severe};  2 kinds
    coarse    {ordinary};  1 kind                         {mild, severe};  1 kind
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import CLASS_NAMES

Absent = Literal["class", "ordinary"]
CountedSets = Literal["fine", "coarse"]

ORDINARY, MILD, SEVERE, ABSENT = range(4)
CLASSES = CLASS_NAMES
"""Of records.  Absent comes after them, as a fourth, where it is a class."""


def provided_classes(absent: Absent) -> tuple[int, ...]:
    """The classes that banks provide shares for: atom k of a record is the k-th of them."""
    return (ORDINARY, MILD, SEVERE) if absent == "class" else (MILD, SEVERE)


def counted_sets(sets: CountedSets, absent: Absent) -> tuple[tuple[int, ...], ...]:
    """The sets that are counted in every cell, as atoms."""
    match sets, absent:
        case "fine", "class":
            return (ORDINARY, MILD, SEVERE), (MILD,), (SEVERE,)
        case "fine", _:
            return (0,), (1,)
        case _, "class":
            return ((ORDINARY,),)
    return ((0, 1),)


def kinds(sets: CountedSets, absent: Absent) -> tuple[tuple[int, ...], ...]:
    """The classes of each kind; ordinary is none."""
    apart = (MILD, SEVERE) if absent == "ordinary" else (MILD, SEVERE, ABSENT)
    return tuple((one,) for one in apart) if sets == "fine" else (apart,)


def kind_counts(
    counts: NDArray[np.int64], kept: NDArray[np.int64], sets: CountedSets, absent: Absent
) -> NDArray[np.int64]:
    """(cells, kinds): accounts of each kind, from (cells, sets) and the accounts kept per cell."""
    match sets, absent:
        case "fine", "class":
            return np.stack([counts[:, 1], counts[:, 2], kept - counts[:, 0]], axis=1)
        case "coarse", "class":
            return (kept - counts[:, 0])[:, np.newaxis]
    return counts


def differing_memberships(sets: Sequence[Sequence[int]], n_atoms: int) -> int:
    """In how many sets two records can differ at most, one of them possibly absent."""
    member = np.zeros((n_atoms + 1, len(sets)), np.int64)  # the last row: no record
    for number, one in enumerate(sets):
        member[list(one), number] = 1
    return int(np.abs(member[:, np.newaxis] - member[np.newaxis]).sum(axis=2).max())
