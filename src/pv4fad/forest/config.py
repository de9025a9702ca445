"""The configuration of a forest, and the public sizes that follow from it and from nothing else.

    ForestConfig(n_trees=12, shape=RandomShape(height=6))

Atoms have names here, such as flag "00" or "yes" of a private slot.  The seed is not part of it:
with the seed, whoever knows the configuration could draw the trees.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import FLAGS, AtomSchema, schema_with_slots
from pv4fad.forest.structure import MAX_HEIGHT, PublicSizes
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


class ForestConfig(ValidatedModel):
    """Everything that decides what others can see of a forest."""

    n_trees: int = Field(ge=1, le=1024)
    shape: RandomShape
    slots: tuple[str, ...] = ()
    """Private slots: families `no`/`yes` whose meaning each bank defines for itself."""
    max_groups_per_tree: int | None = Field(default=None, ge=1)
    """Public maximum; None takes the most that the shape can have."""
    max_distinct_sets: int | None = Field(default=None, ge=1)
    """Public maximum; None takes the number of distinct sets in all conditions."""

    @model_validator(mode="after")
    def _maxima_hold(self) -> ForestConfig:
        if len({len(condition.sets) for condition in self.shape.conditions}) > 1:
            raise ParameterError(
                "all bank conditions need the same number of sets: the aggregator sees it"
            )
        n_used = self._n_used_sets
        if self.max_distinct_sets is not None and self.max_distinct_sets < n_used:
            raise ParameterError(
                f"max_distinct_sets = {self.max_distinct_sets}, "
                f"but the conditions have {n_used} distinct sets"
            )
        return self

    @property
    def atom_schema(self) -> AtomSchema:
        """The flags and the private slots."""
        return schema_with_slots(self.slots)

    @property
    def sizes(self) -> PublicSizes:
        """What banks and the aggregator can see of any forest of this configuration."""
        return PublicSizes(
            n_trees=self.n_trees,
            groups_per_tree=self.max_groups_per_tree or self.shape.groups_per_tree(),
            n_sets=len(self.shape.conditions[0].sets),
            n_distinct_sets=self.max_distinct_sets or self._n_used_sets,
            n_atoms=self.atom_schema.n_atoms,
        )

    @property
    def _n_used_sets(self) -> int:
        resolved = (condition.resolve(self.atom_schema) for condition in self.shape.conditions)
        return len({one_set for condition in resolved for one_set in condition.sets})
