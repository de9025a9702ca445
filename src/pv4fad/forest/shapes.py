"""What trees may look like: the two shapes of a forest, in names instead of numbers.

`RandomShape` is the paper's, `TemplateShape` a set of shallow designed trees.  Atoms have names
here, such as flag "00" or "yes" of a private slot, and features have theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import FLAGS, AtomSchema
from pv4fad.forest.cuts import CutRule
from pv4fad.forest.structure import MAX_HEIGHT
from pv4fad.forest.tree import BankCondition, Side
from pv4fad.forest.validated import ValidatedModel

Level = Annotated[float, Field(gt=0, lt=1)]


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

    builder: Literal["random"] = "random"
    height: int = Field(ge=1, le=MAX_HEIGHT)
    conditions: tuple[ConditionConfig, ...] = Field(default=BOTH_SIDES_NORMAL, min_length=1)
    """The menu from which bank nodes are drawn, |C_B| in the paper."""
    cut_rule: CutRule = CutRule.UNIFORM

    def groups_per_tree(self) -> int:
        """Most groups that a tree can have: a bank node at the root, splits below it.

        A tree averages 21 groups of at most 32 with the paper's numbers (height 6, 10 features, 2
        conditions), with a standard deviation of 7: already the mean and two deviations exceed
        the maximum, and so does some tree of almost every forest.
        """
        return int(2 ** (self.height - 1))


class CutLine(ValidatedModel):
    """One or two cuts on one feature: two or three intervals."""

    feature: str
    rule: CutRule = CutRule.SUPERVISED
    n_cuts: int = Field(default=1, ge=1, le=2)
    levels: tuple[Level, ...] | None = None
    """Where the cuts are, as quantiles or shares of the range; None draws them for every tree."""

    @model_validator(mode="after")
    def _levels_fit(self) -> CutLine:
        if self.levels is not None:
            if self.rule is CutRule.SUPERVISED:
                raise ParameterError(f"cuts on {self.feature!r}: supervised cuts take no levels")
            if len(self.levels) != self.n_cuts or sorted(set(self.levels)) != list(self.levels):
                raise ParameterError(
                    f"cuts on {self.feature!r}: levels must be n_cuts = {self.n_cuts} ascending"
                )
        return self


class TreeTemplate(ValidatedModel):
    """A shallow tree: PNS cuts above, a bank node in each interval, PNS cuts below."""

    conditions: tuple[ConditionConfig | None, ...] = Field(min_length=1)
    """One for all intervals of `above`, or one for each, left to right; None is a green leaf."""
    above: tuple[CutLine, ...] = Field(default=(), max_length=2)
    below: tuple[CutLine, ...] = Field(default=(), max_length=2)

    @model_validator(mode="after")
    def _one_condition_per_interval(self) -> TreeTemplate:
        intervals = _n_intervals(self.above)
        if len(self.conditions) not in (1, intervals):
            raise ParameterError(
                f"a template with {intervals} intervals above its bank nodes has "
                f"{len(self.conditions)} conditions: give one, or one for each interval"
            )
        if not any(self.conditions):
            raise ParameterError("a template needs a bank condition in at least one interval")
        return self

    def conditions_by_interval(self) -> tuple[ConditionConfig | None, ...]:
        """One entry for each interval of `above`."""
        if len(self.conditions) == 1:
            return self.conditions * _n_intervals(self.above)
        return self.conditions

    def n_groups(self) -> int:
        return sum(map(bool, self.conditions_by_interval())) * _n_intervals(self.below)


class TemplateShape(ValidatedModel):
    """Designed trees: tree t follows template t modulo their number (`template_trees`)."""

    builder: Literal["template"] = "template"
    templates: tuple[TreeTemplate, ...] = Field(min_length=1)

    @property
    def conditions(self) -> tuple[ConditionConfig, ...]:
        used = (one for template in self.templates for one in template.conditions)
        return tuple(one for one in used if one is not None)

    def groups_per_tree(self) -> int:
        return max(template.n_groups() for template in self.templates)

    @classmethod
    def bank_on_top(
        cls, conditions: Sequence[ConditionConfig], score: str, n_cuts: Iterable[int] = (0, 1, 2)
    ) -> TemplateShape:
        """The detection recipe: the bank first, then none, one or two supervised cuts on a score.

        Every combination returns after len(n_cuts)·len(conditions) trees, so that with ladder
        rates, which fall from tree to tree, each one meets the whole ladder.
        """
        return cls(
            templates=tuple(
                TreeTemplate(
                    conditions=(condition,),
                    below=(CutLine(feature=score, n_cuts=cuts),) if cuts else (),
                )
                for cuts, condition in product(n_cuts, conditions)
            )
        )


def _n_intervals(lines: Sequence[CutLine]) -> int:
    """Cuts on several features cross, so their numbers of intervals multiply."""
    return prod(line.n_cuts + 1 for line in lines)
