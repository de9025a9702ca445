"""The forest learns what there is to learn, also through noise, and nothing where there is nothing.

The margins are ten and more standard deviations of the accuracy over structures and noise.
"""

import numpy as np
import polars as pl
import pytest

from pv4fad.estimator import Categorical, Numeric, RandomDecisionForestClassifier

N_ROWS = 6000
NAMES = {"amount": Numeric(0, 100), "kind": Categorical("abcdef"), "age": Numeric(0, 80)}


def payments(seed: int, rule) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "amount": rng.uniform(0, 100, N_ROWS),
            "kind": rng.choice(list("abcdef"), N_ROWS),
            "age": rng.integers(0, 80, N_ROWS),
        }
    )
    return table, rule(table, rng)


def by_kind(table, rng):
    """Nine of ten payments of the kinds a and b are bad, one of ten of the others."""
    likely = np.isin(table["kind"].to_numpy(), ["a", "b"])
    return np.where(likely ^ (rng.random(N_ROWS) < 0.1), "bad", "good")


def by_both(table, rng):
    """Neither the amount nor the kind by itself says anything."""
    large = table["amount"].to_numpy() > 50
    return np.where(large ^ np.isin(table["kind"].to_numpy(), ["a", "b", "c"]), "bad", "good")


def by_chance(table, rng):
    return rng.choice(["bad", "good"], N_ROWS)


def accuracy(rule, **parameters) -> float:
    forest = RandomDecisionForestClassifier(domains=NAMES, random_state=1, **parameters)
    return forest.fit(*payments(1, rule)).score(*payments(2, rule))


@pytest.mark.parametrize("epsilon", [None, 5, 0.5])
def test_a_rule_of_one_feature_is_learned_through_noise(epsilon):
    assert accuracy(by_kind, epsilon=epsilon) > 0.85  # 0.9 is perfect, 0.63 the larger class


@pytest.mark.parametrize("epsilon", [None, 5])
def test_a_rule_of_two_features_together_is_learned(epsilon):
    assert accuracy(by_both, epsilon=epsilon, max_depth=6) > 0.85


@pytest.mark.parametrize("epsilon", [None, 1])
def test_coin_flips_are_not_learned(epsilon):
    assert 0.45 < accuracy(by_chance, epsilon=epsilon) < 0.55


def test_majority_votes_share_the_trees_among_the_classes():
    table, label = payments(1, by_kind)
    forest = RandomDecisionForestClassifier(10, vote="majority", random_state=1).fit(table, label)
    votes = forest.predict_proba(table) * 10
    assert votes == pytest.approx(votes.round())
    assert votes.sum(axis=1) == pytest.approx(10)
    assert forest.score(table, label) > 0.7


def test_measured_domains_do_as_well_as_declared_ones():
    table, label = payments(1, by_kind)
    forest = RandomDecisionForestClassifier(random_state=1).fit(table, label)
    assert forest.score(*payments(2, by_kind)) > 0.85
