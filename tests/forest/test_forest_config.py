"""A configuration fixes the public sizes, and an impossible one is refused with a reason."""

from __future__ import annotations

import pytest

from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig, RandomShape, ordinary_on
from pv4fad.forest.tree import BankCondition

MILD = (BankCondition(0, ((0,), (2, 3))),)
ONE, TWO = ordinary_on(0), MILD[0]


def config(n_trees=1, height=3, conditions=(ONE,), n_atoms=11, **others):
    shape = RandomShape(height=height, conditions=conditions)
    return ForestConfig(n_trees=n_trees, shape=shape, n_atoms=n_atoms, **others)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: config(n_trees=0), "n_trees"),
        (lambda: ForestConfig(n_trees=3, n_atoms=11), "shape"),
        (lambda: RandomShape(height=0), "height"),
        (lambda: RandomShape(height=99), "height"),
        (lambda: RandomShape(height=3, conditions=()), "conditions"),
        (
            lambda: config(conditions=(ONE, TWO)),
            "same number of sets",
        ),
        (
            lambda: config(conditions=MILD, max_distinct_sets=1),
            "2 distinct sets",
        ),
        (lambda: RandomShape(height=3, features=()), "features"),
        (
            lambda: config(conditions=(BankCondition(2, ((0,),)),)),
            "not one of the 2",
        ),
        (lambda: config(conditions=(BankCondition(0, ((11,),)),)), r"atom outside 0\.\.10"),
        (lambda: config(epsilon=1), "epsilon"),
        (lambda: config(n_atoms=0), "n_atoms"),
    ],
)
def test_impossible_configurations_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_configuration_is_immutable_and_survives_json():
    made = config(n_trees=3, conditions=MILD)
    assert ForestConfig.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(ValueError, match="frozen"):
        made.n_trees = 5


def test_public_sizes_follow_from_the_configuration():
    random = config(n_trees=12, height=6).sizes
    assert (random.n_groups, random.n_sums, random.n_leaves) == (384, 384, 768)
    assert (random.n_distinct_sets, random.n_atoms) == (1, 11)
    two_sets = config(n_trees=36, conditions=MILD).sizes
    assert (two_sets.n_groups, two_sets.n_sums, two_sets.n_leaves) == (144, 288, 432)
    assert two_sets.n_distinct_sets == 2
