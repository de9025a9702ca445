"""Atoms: what a bank says about one account record (protocol.md §2).

A *family* is a list of atoms of which every record has exactly one.  The flag codes are a family;
so is each *private slot*, whose atoms `no` and `yes` every bank fills with a meaning of its own
(`records.py`).  A schema numbers the atoms of all families 0..K-1; a *set* is a few atoms of one
family, written as their sorted numbers.  K is public; which sets are in use is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

from pv4fad.errors import ParameterError
from pv4fad.payments.schema import FLAG_CODES

AtomSet = tuple[int, ...]

SLOT_ATOMS = ("no", "yes")
PRESENT = "present"  # the set of all atoms of a family: the account is at its bank


@dataclass(frozen=True)
class AtomFamily:
    """Atoms of which every record has exactly one."""

    name: str
    atoms: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise ParameterError("an atom family needs a name")
        if not self.atoms or len(set(self.atoms)) < len(self.atoms):
            raise ParameterError(f"atom family {self.name!r} needs atoms, all different")


FLAGS = AtomFamily("flags", FLAG_CODES)
CLASS_NAMES = ("ordinary", "mild", "severe")
CLASSES = "class"
"""The family of the classes that the default model tells apart; flags decide (`records`)."""


@dataclass(frozen=True)
class AtomSchema:
    """Families in order; their atoms are numbered 0..n_atoms-1 through all families."""

    families: tuple[AtomFamily, ...] = (FLAGS,)

    def __post_init__(self) -> None:
        names = [family.name for family in self.families]
        if not names or len(set(names)) < len(names):
            raise ParameterError(
                f"atom families {', '.join(names) or 'none'}: give some, all with different names"
            )

    @property
    def n_atoms(self) -> int:
        return self.offsets[-1]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First atom of each family, and n_atoms as the last element."""
        return tuple(accumulate((len(family.atoms) for family in self.families), initial=0))

    @cached_property
    def family_of(self) -> tuple[int, ...]:
        """The family (index) of each atom."""
        sizes = (len(family.atoms) for family in self.families)
        return tuple(chain.from_iterable([index] * size for index, size in enumerate(sizes)))

    def atom_set(self, family: str, atoms: Sequence[str]) -> AtomSet:
        """The set of these atoms of this family; `("present",)` means all of them."""
        names = [candidate.name for candidate in self.families]
        if family not in names:
            raise ParameterError(f"there is no atom family {family!r}; known: {', '.join(names)}")
        index = names.index(family)
        first, known = self.offsets[index], self.families[index].atoms
        if tuple(atoms) == (PRESENT,):
            return tuple(range(first, first + len(known)))
        for atom in atoms:
            if atom not in known:
                raise ParameterError(
                    f"family {family!r} has no atom {atom!r}; known: {', '.join(known)}"
                )
        return tuple(sorted(first + known.index(atom) for atom in set(atoms)))


def class_schema(absent: str) -> AtomSchema:
    """The classes that banks provide: all, or all but ordinary where absent means ordinary."""
    names = CLASS_NAMES if absent == "class" else CLASS_NAMES[1:]
    return AtomSchema((AtomFamily(CLASSES, names),))


def schema_with_slots(slots: Sequence[str] = ()) -> AtomSchema:
    """The flags, and one `no`/`yes` family for each private slot."""
    return AtomSchema((FLAGS, *(AtomFamily(slot, SLOT_ATOMS) for slot in slots)))
