"""The configuration of a forest, and the public sizes that follow from it and from nothing else.

    ForestConfig(n_trees=12, shape=RandomShape(height=6), n_atoms=11)

The seed is not part of it: with the seed, whoever knows the configuration could draw the trees.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from pv4fad.errors import ParameterError
from pv4fad.forest.structure import MAX_HEIGHT, PublicSizes
from pv4fad.forest.tree import BankCondition
from pv4fad.validated import ValidatedModel


def ordinary_on(side: int) -> BankCondition:
    """Whether the record of this side is an ordinary one."""
    return BankCondition(side, ((0,),))


class RandomShape(ValidatedModel):
    """The paper's trees: every test drawn at random (`random_trees`)."""

    height: int = Field(ge=1, le=MAX_HEIGHT)
    """Tests on a path."""
    conditions: tuple[BankCondition, ...] = Field(
        default=(ordinary_on(0), ordinary_on(1)), min_length=1
    )
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
    """Number of trees."""
    shape: RandomShape
    """How each tree is drawn."""
    n_atoms: int = Field(ge=1)
    """How many classes a record can have."""
    n_sides: int = Field(default=2, ge=1)
    """Sides of a row."""
    max_groups_per_tree: int | None = Field(default=None, ge=1)
    """Public maximum; None takes the most that the shape can have."""
    max_distinct_sets: int | None = Field(default=None, ge=1)
    """Public maximum; None takes the number of distinct sets in all conditions."""

    @model_validator(mode="after")
    def _maxima_hold(self) -> ForestConfig:
        conditions = self.shape.conditions
        if len({len(condition.sets) for condition in conditions}) > 1:
            raise ParameterError(
                "all bank conditions need the same number of sets: the aggregator sees it"
            )
        if any(not 0 <= condition.side < self.n_sides for condition in conditions):
            raise ParameterError(
                f"a bank condition asks about a side that is not one of the {self.n_sides}"
            )
        atoms = (atom for condition in conditions for one in condition.sets for atom in one)
        if any(not 0 <= atom < self.n_atoms for atom in atoms):
            raise ParameterError(f"a bank condition has an atom outside 0..{self.n_atoms - 1}")
        n_used = self._n_used_sets
        if self.max_distinct_sets is not None and self.max_distinct_sets < n_used:
            raise ParameterError(
                f"max_distinct_sets = {self.max_distinct_sets}, "
                f"but the conditions have {n_used} distinct sets"
            )
        return self

    @property
    def sizes(self) -> PublicSizes:
        """What banks and the aggregator can see of any forest of this configuration."""
        return PublicSizes(
            n_trees=self.n_trees,
            groups_per_tree=self.max_groups_per_tree or self.shape.groups_per_tree(),
            n_sets=len(self.shape.conditions[0].sets),
            n_distinct_sets=self.max_distinct_sets or self._n_used_sets,
            n_atoms=self.n_atoms,
            n_sides=self.n_sides,
        )

    @property
    def _n_used_sets(self) -> int:
        return len({one for condition in self.shape.conditions for one in condition.sets})
