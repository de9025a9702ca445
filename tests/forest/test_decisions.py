"""Scoring by decisions: every alert is that of a trusted third party who applies the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig, RandomShape
from pv4fad.forest.decisions import NOTHING, AccountSet, account_classes, decision_sets
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Split
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.payments.schema import BENEFICIARY, ORDERING

MENUS = (
    (((0,),),),
    (((0,),), (tuple(range(11)),), ((2, 3),)),
    (((1, 5),), ((6,),)),
    (((0,), (2, 3)), ((0, 10), (4,))),
)
N_ATOMS = 11
N_KEYS = 9


def forest_of(menu, n_trees, height, seed):
    conditions = tuple(
        BankCondition(side, sets) for sets in MENUS[menu] for side in (ORDERING, BENEFICIARY)
    )
    shape = RandomShape(height=height, conditions=conditions)
    config = ForestConfig(n_trees=n_trees, shape=shape, n_atoms=N_ATOMS)
    features = np.random.default_rng(seed).random((50, 3)).astype(np.float32)
    return build_forest(config, "abc", features, seed), features


def answers_of(decisions, atoms, key_of):
    """What honest banks answer: each asked side, looked up in the records."""
    answers = np.zeros(key_of.shape, bool)
    for row, side in np.argwhere(decisions.asks):
        asked = decisions.sets[decisions.set_of[row, side]]
        atom = atoms[key_of[row, side]]
        answers[row, side] = asked.absent if atom < 0 else atom in asked.atoms
    return answers


@settings(max_examples=150, deadline=None)
@given(
    menu=st.integers(0, len(MENUS) - 1),
    n_trees=st.integers(1, 6),
    height=st.integers(1, 4),
    share=st.sampled_from([0.1, 0.5, 0.8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_decision_is_that_of_a_trusted_third_party(menu, n_trees, height, share, seed):
    forest, features = forest_of(menu, n_trees, height, seed)
    rng = np.random.default_rng(seed)
    codes = forest.route(features)
    red = (rng.random((forest.sizes.n_groups, forest.sizes.n_sets + 1)) < share).astype(np.int8)
    green = (rng.random(forest.n_green) < share).astype(np.int8)
    # Any class, or absent; ordinary ones more often than not.
    atoms = np.where(rng.random(N_KEYS) < 0.4, 0, rng.integers(-1, N_ATOMS, N_KEYS))
    key_of = rng.integers(N_KEYS, size=(len(codes), 2))

    decisions = decision_sets(forest, codes, red, green)
    oracle = TrustedThirdParty(forest, atoms)
    truth = oracle.decisions(codes, key_of, red, green)
    assert np.array_equal(decisions.alerts(answers_of(decisions, atoms, key_of)), truth.alerts)

    # Nothing is asked where the answer could change nothing: neither set holds every class.
    assert not decisions.asks[decisions.alert_alone].any()
    assert all(0 not in one.atoms and (one.atoms or one.absent) for one in decisions.sets)
    assert len(set(decisions.sets)) == len(decisions.sets)
    assert set(np.unique(decisions.set_of[decisions.asks])) == set(range(len(decisions.sets)))

    # With at most one account that is not ordinary the rule is the joint vote, except that a
    # payment which alerts alone is not taken back.
    single = (atoms[key_of] == 0).any(axis=1)
    expected = decisions.alert_alone | truth.joint
    assert np.array_equal(truth.alerts[single], expected[single])
    assert truth.n_different == (truth.alerts != truth.joint).sum()
    nobody = TrustedThirdParty(forest, np.zeros(1, np.int64))
    votes = nobody.votes(codes, np.zeros_like(key_of), red, green).total
    assert np.array_equal(decisions.share_alone, votes / n_trees)


@pytest.mark.parametrize("absent_votes", [0, 1])
def test_the_worked_case_asks_what_it_should(absent_votes):
    """One tree per side; the beneficiary's tree votes 1 for mild accounts, if x ≥ 0."""
    trees = tuple(
        Split(0, 0.0, Leaf(), BankNode(BankCondition(side, ((0,), (2, 3))), Leaf()))
        for side in (BENEFICIARY, BENEFICIARY, ORDERING)
    )
    forest = Forest(trees, ("x",), PublicSizes(3, 1, 2, 2, N_ATOMS))
    red = np.array([[0, 1, absent_votes], [0, 1, absent_votes], [0, 0, 0]], np.int8)
    green = np.array([1, 1, 0], np.int8)
    codes = forest.route(np.array([[-1], [1]], np.float32))
    decisions = decision_sets(forest, codes, red, green)
    assert decisions.alert_alone.tolist() == [True, False]
    assert decisions.share_alone.tolist() == [2 / 3, 0]
    assert decisions.set_of.tolist() == [[NOTHING, NOTHING], [NOTHING, 0]]
    others = (1, *range(4, 11)) if absent_votes else ()
    assert decisions.sets == (AccountSet(tuple(sorted({2, 3, *others})), bool(absent_votes)),)


def test_two_unusual_accounts_together_are_where_the_rule_differs_from_the_joint_vote():
    trees = tuple(BankNode(BankCondition(side, ((0,),)), Leaf()) for side in range(2))
    forest = Forest(trees, ("x",), PublicSizes(2, 1, 1, 1, N_ATOMS))
    codes = forest.route(np.zeros((1, 1), np.float32))
    red = np.array([[0, 1], [0, 1]], np.int8)
    truth = TrustedThirdParty(forest, np.array([5, -1])).decisions(
        codes, np.array([[0, 1]]), red, np.zeros(0, np.int8)
    )
    assert (truth.alerts.tolist(), truth.joint.tolist()) == ([False], [True])
    assert truth.n_different == 1


def test_classes_are_what_the_conditions_tell_apart_and_ordinary_comes_first():
    forest, _ = forest_of(1, 6, 4, 0)
    assert account_classes(forest) == (
        AccountSet((0,), False),
        AccountSet((1, *range(4, 11)), False),
        AccountSet((2, 3), False),
        AccountSet((), True),
    )
    merged, _ = forest_of(0, 2, 3, 0)
    assert account_classes(merged) == (
        AccountSet((0,), False),
        AccountSet(tuple(range(1, 11)), True),
    )
    # Nothing asks about normal accounts: they are in one class with all other unnamed flags.
    unnamed, _ = forest_of(2, 6, 4, 1)
    assert account_classes(unnamed)[0] == AccountSet((0, 2, 3, 4, 7, 8, 9, 10), True)


def test_labels_have_to_fit():
    forest, features = forest_of(0, 2, 3, 0)
    red = np.zeros((1, 2), np.int8)
    with pytest.raises(ParameterError, match="red labels of shape"):
        decision_sets(forest, forest.route(features), red, np.zeros(forest.n_green, np.int8))


@pytest.mark.parametrize("n_sides", [1, 3])
def test_one_or_three_sides_are_decided_as_two_are(n_sides):
    rng = np.random.default_rng(n_sides)
    conditions = tuple(BankCondition(side, ((0,),)) for side in range(n_sides))
    shape = RandomShape(height=3, conditions=conditions)
    config = ForestConfig(n_trees=5, shape=shape, n_atoms=3, n_sides=n_sides)
    features = rng.random((80, 3)).astype(np.float32)
    forest = build_forest(config, "abc", features, seed=n_sides)
    assert set(forest.group_sides.tolist()) == set(range(n_sides))
    red = rng.integers(0, 2, (forest.sizes.n_groups, 2), np.int8)
    green = rng.integers(0, 2, forest.n_green, np.int8)
    atoms, key_of = rng.integers(-1, 3, N_KEYS), rng.integers(N_KEYS, size=(80, n_sides))
    codes = forest.route(features)
    decisions = decision_sets(forest, codes, red, green)
    truth = TrustedThirdParty(forest, atoms).decisions(codes, key_of, red, green)
    found = decisions.alerts(answers_of(decisions, atoms, key_of))
    assert np.array_equal(found, truth.alerts)
    assert decisions.asks.any()
