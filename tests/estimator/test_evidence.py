"""Noisy counts are believed as far as they stand out from the noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.estimator.evidence import class_totals, leaf_evidence, times_asked
from pv4fad.estimator.trees import Tree


def tree_of(*shape: int, features: tuple[int, ...] | None = None) -> Tree:
    return Tree(features or tuple(range(len(shape))), tuple(map(np.arange, shape)), shape)


def test_without_noise_the_evidence_is_that_of_the_counts():
    count = np.array([[90, 10], [40, 60], [20, 80], [50, 50]])
    totals = class_totals([count], 0)
    assert totals.tolist() == [200, 200]
    share = (count + 0.5) / (count.sum(axis=1, keepdims=True) + 1)
    assert leaf_evidence(tree_of(2, 2), count, totals, 0) == pytest.approx(np.log(share / 0.5))


@given(seed=st.integers(0, 2**32), shape=st.sampled_from([(), (2,), (3, 4), (2, 3, 2)]))
def test_overwhelming_noise_is_no_evidence(seed, shape):
    tree = tree_of(*shape)
    count = np.random.default_rng(seed).integers(-1000, 1000, (tree.n_leaves, 3))
    evidence = leaf_evidence(tree, count, np.array([500.0, 300.0, 2.0]), 1e14)
    assert np.abs(evidence).max() < 0.01


@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(), (2,), (3, 4), (2, 3, 2)]),
    variance=st.floats(0, 1e6),
)
def test_evidence_is_finite_and_makes_probabilities(seed, shape, variance):
    tree = tree_of(*shape)
    count = np.random.default_rng(seed).integers(-100, 100, (tree.n_leaves, 3))
    totals = class_totals([count], variance)
    posterior = np.exp(leaf_evidence(tree, count, totals, variance)) * totals / totals.sum()
    assert posterior.sum(axis=1) == pytest.approx(1)


def test_with_noise_on_the_leaves_the_tests_speak_one_by_one():
    # The first of two tests decides the class, and each leaf has few rows for such noise.  The sign
    # of a leaf is then that of its first branch, even where the noise has turned its count around.
    count = np.full((2, 16, 2), 20)
    count[0, :, 0], count[1, :, 1] = 80, 80
    count[0, 3] = [10, 90]
    evidence = leaf_evidence(tree_of(2, 16), count.reshape(-1, 2), np.array([1600.0, 1600.0]), 4e4)
    assert (evidence.reshape(2, 16, 2)[0, :, 0] > 0).all()
    assert (evidence.reshape(2, 16, 2)[1, :, 1] > 0).all()


def test_totals_are_averaged_over_trees_and_never_below_the_noise():
    counts = [np.array([[100, -40], [20, 0]]), np.array([[140, 0]])]
    assert class_totals(counts, 0).tolist() == [130, 1]
    assert class_totals(counts, 300).tolist() == [130, 16]  # √(300·3)/2 + 1


def test_repeats_are_counted_over_the_features_that_are_asked():
    assert times_asked([tree_of(2, 2, features=(0, 1))]) == 1
    assert times_asked([tree_of(2, features=(at,)) for at in (0, 5, 0, 5, 0, 5)]) == 3
    assert times_asked([tree_of()]) == 1
