"""A configuration fixes the public sizes, and an impossible one is refused with a reason."""

from __future__ import annotations

import pytest

from pv4fad.errors import ParameterError
from pv4fad.forest.config import (
    BOTH_SIDES_NORMAL,
    ConditionConfig,
    ForestConfig,
    RandomShape,
)

MILD = (ConditionConfig(side="ordering", sets=(("00",), ("03", "04"))),)
ONE, TWO = BOTH_SIDES_NORMAL[0], MILD[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ForestConfig(n_trees=0, shape=RandomShape(height=3)), "n_trees"),
        (lambda: ForestConfig(n_trees=3), "shape"),
        (lambda: RandomShape(height=0), "height"),
        (lambda: RandomShape(height=99), "height"),
        (lambda: RandomShape(height=3, conditions=()), "conditions"),
        (
            lambda: ForestConfig(n_trees=1, shape=RandomShape(height=3, conditions=(ONE, TWO))),
            "same number of sets",
        ),
        (
            lambda: ForestConfig(
                n_trees=1, shape=RandomShape(height=3, conditions=MILD), max_distinct_sets=1
            ),
            "2 distinct sets",
        ),
        (lambda: RandomShape(height=3, features=()), "features"),
        (lambda: ConditionConfig(side="middle", sets=(("00",),)), "side"),
        (lambda: ConditionConfig(side="ordering", sets=()), "sets"),
        (
            lambda: ForestConfig(
                n_trees=1,
                shape=RandomShape(
                    height=2, conditions=(ConditionConfig(side="ordering", sets=(("02",),)),)
                ),
            ),
            "no atom '02'",
        ),
        (
            lambda: ForestConfig(
                n_trees=1,
                shape=RandomShape(
                    height=2,
                    conditions=(ConditionConfig(side="ordering", sets=(("yes",),), family="risk"),),
                ),
            ),
            "no atom family 'risk'",
        ),
        (lambda: ForestConfig(n_trees=1, shape=RandomShape(height=2), epsilon=1), "epsilon"),
    ],
)
def test_impossible_configurations_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_configuration_is_immutable_and_survives_json():
    config = ForestConfig(n_trees=3, slots=("risk",), shape=RandomShape(height=2, conditions=MILD))
    assert ForestConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(ValueError, match="frozen"):
        config.n_trees = 5


def test_public_sizes_follow_from_the_configuration():
    random = ForestConfig(n_trees=12, shape=RandomShape(height=6), slots=("risk",)).sizes
    assert (random.n_groups, random.n_sums, random.n_leaves) == (384, 384, 768)
    assert (random.n_distinct_sets, random.n_atoms) == (1, 13)
    two_sets = ForestConfig(n_trees=36, shape=RandomShape(height=3, conditions=MILD)).sizes
    assert (two_sets.n_groups, two_sets.n_sums, two_sets.n_leaves) == (144, 288, 432)
    assert two_sets.n_distinct_sets == 2
