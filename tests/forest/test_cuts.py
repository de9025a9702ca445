"""A cut lies where its rule and level say, on real columns and on degenerate ones."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.errors import DataError
from pv4fad.forest.cuts import CutPoints, CutRule


def test_uniform_cuts_lie_in_the_range_and_quantile_cuts_split_the_rows():
    rng = np.random.default_rng(0)
    column = rng.lognormal(0, 2, 10_001).astype(np.float32)
    cuts = CutPoints(column[:, None], np.zeros(len(column), np.int8))
    low, high = column.min(), column.max()
    assert cuts.at(CutRule.UNIFORM, 0, 0.25) == pytest.approx(low + (high - low) / 4)
    for level in (0.01, 0.5, 0.999):
        below = (column < np.float32(cuts.at(CutRule.QUANTILE, 0, level))).mean()
        assert below == pytest.approx(level, abs=1e-3)


@pytest.mark.parametrize("rule", list(CutRule))
def test_a_feature_with_two_values_is_always_split_between_them(rule):
    column = np.array([0] * 990 + [1] * 10, np.float32)
    cuts = CutPoints(column[:, None], (column > 0).astype(np.int8))
    for level in (0.001, 0.5, 0.999):
        assert 0 < cuts.at(rule, 0, level) <= 1


@pytest.mark.parametrize("rule", list(CutRule))
def test_missing_infinite_and_constant_columns_still_give_a_finite_cut(rule):
    labels = np.array([0, 1, 0, 1], np.int8)
    columns = np.array(
        [[np.nan, np.nan, 3, 1e38], [np.nan, np.inf, 3, -1e38], [np.nan, 1, 3, 3e38],
         [np.nan, 2, 3, -3e38]],
        np.float32,
    )  # fmt: skip
    cuts = CutPoints(columns, labels)
    for feature in range(4):
        assert np.isfinite(np.float32(cuts.at(rule, feature, 0.5)))


@pytest.mark.parametrize("edge", [0.9, 0.998])
def test_supervised_cuts_separate_what_the_labels_separate_however_rare_label_1_is(edge):
    rng = np.random.default_rng(0)
    score = rng.random(20_000).astype(np.float32)
    labels = ((score > edge) & (rng.random(len(score)) < 0.5)).astype(np.int8)
    cuts = CutPoints(score[:, None], labels)
    cut = cuts.at(CutRule.SUPERVISED, 0, 0.5, n_thresholds=1)
    assert cut == pytest.approx(edge, abs=(1 - edge) / 4)


def test_a_supervised_cut_sends_each_row_where_the_decision_tree_sends_it():
    # The midpoint of two neighbouring floats is no float32 and rounds to one of them: over three
    # neighbours once to the upper and once to the lower, which must not end up above the cut.
    low = np.float32(1e6)
    middle = np.nextafter(low, np.float32(2e6))
    for left, right in ((low, middle), (middle, np.nextafter(middle, np.float32(2e6)))):
        # More of the upper value, so that the fall-back to a quantile would give another cut.
        column = np.array([left - 1] + [left] * 20 + [right] * 80, np.float32)
        cuts = CutPoints(column[:, None], (column == right).astype(np.int8))
        assert cuts.at(CutRule.SUPERVISED, 0, 0.1, n_thresholds=1) == right


def test_features_and_labels_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="3 labels"):
        CutPoints(np.zeros((5, 2), np.float32), np.zeros(3, np.int8))
