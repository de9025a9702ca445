"""Kinds of records, and the sets of them that are counted.

Every record is of one kind: 0 is *ordinary*, and 1..K are the kinds of the schema.  What the lead
judges an account by is its kind or, where no holder has a record, *absent*, K + 1.  `absent` says
what that means:

    class       absent is a kind of its own: a payment to an account that does not exist is odd
    ordinary    absent is the same as ordinary.  The holders then provide no share for ordinary, and
                no party can ever tell the two apart

`sets` says what is counted in every cell.  The number of accounts of each kind in a cell follows
from one count, so it carries one sum's noise.  With two kinds, mild and severe:

              absent = class                              absent = ordinary
    fine      {present} {mild} {severe};  3 kinds         {mild} {severe};  2 kinds
    coarse    {ordinary};  1 kind                         {mild, severe};  1 kind
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pv4fad.schema import Absent

CountedSets = Literal["fine", "coarse"]

ORDINARY = 0


def provided_kinds(absent: Absent, n_kinds: int) -> tuple[int, ...]:
    """The kinds that holders provide shares for: atom k of a record is the k-th of them."""
    return tuple(range(ORDINARY if absent == "class" else 1, n_kinds + 1))


def n_kinds_of(n_atoms: int, absent: Absent) -> int:
    """K, from the number of atoms that holders provide."""
    return n_atoms - 1 if absent == "class" else n_atoms


def counted_sets(sets: CountedSets, absent: Absent, n_kinds: int) -> tuple[tuple[int, ...], ...]:
    """The sets that are counted in every cell, as atoms."""
    atoms = tuple(range(len(provided_kinds(absent, n_kinds))))
    match sets, absent:
        case "fine", "class":
            return atoms, *((atom,) for atom in atoms[1:])
        case "fine", _:
            return tuple((atom,) for atom in atoms)
        case _, "class":
            return (atoms[:1],)
    return (atoms,)


def judged_kinds(sets: CountedSets, absent: Absent, n_kinds: int) -> tuple[tuple[int, ...], ...]:
    """What the counts tell apart, each as the kinds in it; ordinary is in none."""
    apart = range(1, n_kinds + (2 if absent == "class" else 1))
    return tuple((kind,) for kind in apart) if sets == "fine" else (tuple(apart),)


def kind_counts(
    counts: NDArray[np.int64], kept: NDArray[np.int64], sets: CountedSets, absent: Absent
) -> NDArray[np.int64]:
    """(cells, judged kinds): accounts, from (cells, sets) and the accounts kept per cell."""
    if absent == "ordinary":
        return counts
    missing = (kept - counts[:, 0])[:, np.newaxis]
    return np.hstack([counts[:, 1:], missing]) if sets == "fine" else missing


def differing_memberships(sets: Sequence[Sequence[int]], n_atoms: int) -> int:
    """In how many sets two records can differ at most, one of them possibly absent."""
    member = np.zeros((n_atoms + 1, len(sets)), np.int64)  # the last row: no record
    for number, one in enumerate(sets):
        member[list(one), number] = 1
    return int(np.abs(member[:, np.newaxis] - member[np.newaxis]).sum(axis=2).max())
