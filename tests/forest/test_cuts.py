"""A cut lies where its level says, on real columns and on degenerate ones."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.errors import DataError
from pv4fad.forest.random_trees import CutPoints


def test_cuts_lie_in_the_range_of_the_feature_at_their_level():
    column = np.random.default_rng(0).lognormal(0, 2, 10_001).astype(np.float32)
    cuts = CutPoints(column[:, None])
    low, high = column.min(), column.max()
    assert cuts.at(0, 0.25) == pytest.approx(low + (high - low) / 4)
    assert cuts.at(0, 0.1) < cuts.at(0, 0.2)


def test_a_feature_with_two_values_is_always_split_between_them():
    column = np.array([0] * 990 + [1] * 10, np.float32)
    cuts = CutPoints(column[:, None])
    for level in (0.001, 0.5, 0.999):
        assert 0 < cuts.at(0, level) <= 1


def test_missing_infinite_and_constant_columns_still_give_a_finite_cut():
    columns = np.array(
        [[np.nan, np.nan, 3, 1e38], [np.nan, np.inf, 3, -1e38], [np.nan, 1, 3, 3e38],
         [np.nan, 2, 3, -3e38]],
        np.float32,
    )  # fmt: skip
    cuts = CutPoints(columns)
    for feature in range(4):
        assert np.isfinite(np.float32(cuts.at(feature, 0.5)))
    assert 1 <= cuts.at(1, 0.5) <= 2


def test_features_that_are_no_table_are_refused():
    with pytest.raises(DataError, match="shape"):
        CutPoints(np.zeros(5, np.float32))
