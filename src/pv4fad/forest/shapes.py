"""What trees may look like, in names instead of numbers.

Atoms have names here, such as flag "00" or "yes" of a private slot.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pv4fad.forest.atoms import FLAGS, AtomSchema
from pv4fad.forest.structure import MAX_HEIGHT
from pv4fad.forest.tree import BankCondition, Side
from pv4fad.validated import ValidatedModel


class ConditionConfig(ValidatedModel):
    """A bank condition in names: a side, a family, and one or two disjoint sets of its atoms."""

    side: Literal["ordering", "beneficiary"]
    sets: tuple[tuple[str, ...], ...] = Field(min_length=1, max_length=2)
    family: str = FLAGS.name

    def resolve(self, schema: AtomSchema) -> BankCondition:
        """The same condition in the atom numbers of a schema."""
        sets = tuple(schema.atom_set(self.family, names) for names in self.sets)
        return BankCondition(Side[self.side.upper()], sets)


BOTH_SIDES_NORMAL = (
    ConditionConfig(side="ordering", sets=(("00",),)),
    ConditionConfig(side="beneficiary", sets=(("00",),)),
)


class RandomShape(ValidatedModel):
    """The paper's trees: every test drawn at random (`random_trees`)."""

    height: int = Field(ge=1, le=MAX_HEIGHT)
    conditions: tuple[ConditionConfig, ...] = Field(default=BOTH_SIDES_NORMAL, min_length=1)
    """The menu from which bank nodes are drawn, |C_B| in the paper; one that is listed twice is
    drawn twice as often."""
    features: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The features that splits test, |C_S| in the paper; None: all there are."""

    def groups_per_tree(self) -> int:
        """Most groups that a tree can have: a bank node at the root, splits below it.

        A tree averages 21 groups of at most 32 with the paper's numbers (height 6, 10 features, 2
        conditions), with a standard deviation of 7: already the mean and two deviations exceed
        the maximum, and so does some tree of almost every forest.
        """
        return int(2 ** (self.height - 1))
