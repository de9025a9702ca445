"""Scoring by decisions: every alert is that of a trusted third party who applies the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import FLAGS, schema_with_slots
from pv4fad.forest.config import ConditionConfig, ForestConfig, RandomShape
from pv4fad.forest.decisions import NOTHING, AccountSet, account_classes, decision_sets
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Side, Split
from pv4fad.forest.trusted import TrustedThirdParty

MENUS = (
    ((("00",),),),
    ((("00",),), (("present",),), (("03", "04"),)),
    ((("01", "06"),), (("07",),)),
    ((("00",), ("03", "04")), (("00", "11"), ("05",))),
)
N_KEYS = 9


def forest_of(menu, n_trees, height, seed):
    conditions = tuple(
        ConditionConfig(side=side, sets=sets)
        for sets in MENUS[menu]
        for side in ("ordering", "beneficiary")
    )
    config = ForestConfig(n_trees=n_trees, shape=RandomShape(height=height, conditions=conditions))
    features = np.random.default_rng(seed).random((50, 3)).astype(np.float32)
    return build_forest(config, "abc", features, seed), features


def answers_of(decisions, atoms, key_of):
    """What honest banks answer: each asked side, looked up in the records."""
    answers = np.zeros((len(key_of), 2), bool)
    for row, side in np.argwhere(decisions.asks):
        asked = decisions.sets[decisions.set_of[row, side]]
        atom = atoms[key_of[row, side], 0]
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
    # Any flag, or absent; ordinary ones more often than not.
    flags = np.where(rng.random(N_KEYS) < 0.4, 0, rng.integers(-1, len(FLAGS.atoms), N_KEYS))
    atoms, key_of = flags[:, np.newaxis], rng.integers(N_KEYS, size=(len(codes), 2))

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
    single = (flags[key_of] == 0).any(axis=1)
    expected = decisions.alert_alone | truth.joint
    assert np.array_equal(truth.alerts[single], expected[single])
    assert truth.n_different == (truth.alerts != truth.joint).sum()
    nobody = TrustedThirdParty(forest, np.zeros((1, 1), np.int64))
    votes = nobody.votes(codes, np.zeros_like(key_of), red, green).total
    assert np.array_equal(decisions.share_alone, votes / n_trees)


@pytest.mark.parametrize("absent_votes", [0, 1])
def test_the_worked_case_asks_what_it_should(absent_votes):
    """One tree per side; the beneficiary's tree votes 1 for mild accounts, if x ≥ 0."""
    schema = schema_with_slots()
    trees = tuple(
        Split(0, 0.0, Leaf(), BankNode(BankCondition(side, ((0,), (2, 3))), Leaf()))
        for side in (Side.BENEFICIARY, Side.BENEFICIARY, Side.ORDERING)
    )
    forest = Forest(trees, ("x",), schema, PublicSizes(3, 1, 2, 2, schema.n_atoms))
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
    schema = schema_with_slots()
    trees = tuple(BankNode(BankCondition(side, ((0,),)), Leaf()) for side in Side)
    forest = Forest(trees, ("x",), schema, PublicSizes(2, 1, 1, 1, schema.n_atoms))
    codes = forest.route(np.zeros((1, 1), np.float32))
    red = np.array([[0, 1], [0, 1]], np.int8)
    truth = TrustedThirdParty(forest, np.array([[5], [-1]])).decisions(
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


def test_a_private_slot_cannot_be_asked_about_and_labels_have_to_fit():
    schema = schema_with_slots(["risk"])
    slot = BankNode(BankCondition(Side.ORDERING, ((11,),)), Leaf())
    asks_slot = Forest((slot,), ("x",), schema, PublicSizes(1, 1, 1, 1, schema.n_atoms))
    codes, red = asks_slot.route(np.zeros((2, 1), np.float32)), np.zeros((1, 2), np.int8)
    with pytest.raises(ParameterError, match="private slot"):
        decision_sets(asks_slot, codes, red, np.zeros(0, np.int8))
    forest, features = forest_of(0, 2, 3, 0)
    with pytest.raises(ParameterError, match="red labels of shape"):
        decision_sets(forest, forest.route(features), red, np.zeros(forest.n_green, np.int8))
