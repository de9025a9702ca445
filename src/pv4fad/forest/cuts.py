"""Cut points: where on its feature a PNS test cuts (protocol.md §2).

A builder draws *levels* in (0, 1), which do not depend on data, and the payment network's own
training data turns a level into a value: a share of the feature's range (uniform), a quantile, or
one of the thresholds that best tell label 1 from label 0 (supervised).
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from pv4fad.errors import DataError

_SUPERVISED_ROWS = 200_000  # label-0 rows looked at; label 1 is rare and all of it is used


class CutRule(StrEnum):
    """How a level becomes a value."""

    UNIFORM = "uniform"
    QUANTILE = "quantile"
    SUPERVISED = "supervised"


class CutPoints:
    """Turns levels into cuts on the features of one training set."""

    def __init__(self, features: NDArray[np.float32], labels: NDArray[np.int8]) -> None:
        if features.ndim != 2 or len(features) != len(labels):
            raise DataError(f"features of shape {features.shape} and {len(labels)} labels")
        self._features = features
        self._labels = labels
        self._sorted: dict[int, NDArray[np.float32]] = {}
        self._thresholds: dict[tuple[int, int], NDArray[np.float32]] = {}

    def at(self, rule: CutRule, feature: int, level: float, n_thresholds: int = 15) -> float:
        """The cut at this level; rises with the level.

        `n_thresholds` is for the supervised rule: that many are chosen, and the level picks one.
        """
        values = self._sorted_values(feature)
        if not len(values):
            return 0.0  # all missing: every transaction goes above, wherever the cut is
        if rule is CutRule.UNIFORM:
            low, high = float(values[0]), float(values[-1])
            return float(np.float32(low + (high - low) * level))
        if rule is CutRule.SUPERVISED:
            thresholds = self._supervised(feature, n_thresholds)
            if len(thresholds):
                return _pick(thresholds, level)
        return _quantile(values, level)

    def _sorted_values(self, feature: int) -> NDArray[np.float32]:
        if feature not in self._sorted:
            column = self._features[:, feature]
            self._sorted[feature] = np.sort(column[np.isfinite(column)])
        return self._sorted[feature]

    def _supervised(self, feature: int, n_thresholds: int) -> NDArray[np.float32]:
        """Up to n thresholds of a decision tree on this feature alone, ascending."""
        key = (feature, n_thresholds)
        if key not in self._thresholds:
            column = self._features[:, feature]
            finite = np.isfinite(column)
            zeros = np.flatnonzero(finite & (self._labels == 0))
            zeros = zeros[:: max(1, len(zeros) // _SUPERVISED_ROWS)]
            rows = np.concatenate([zeros, np.flatnonzero(finite & (self._labels == 1))])
            tree = DecisionTreeClassifier(
                max_leaf_nodes=n_thresholds + 1,
                class_weight="balanced",
                min_weight_fraction_leaf=0.01,
                random_state=0,
            ).fit(column[rows, None], self._labels[rows])
            inner = tree.tree_.children_left >= 0
            self._thresholds[key] = _as_strict(np.sort(tree.tree_.threshold[inner]))
        return self._thresholds[key]


def _pick(ascending: NDArray[np.float32], level: float) -> float:
    return float(ascending[min(int(level * len(ascending)), len(ascending) - 1)])


def _quantile(values: NDArray[np.float32], level: float) -> float:
    """A value with about this share of the others below it, and never none if that is possible."""
    cut = _pick(values, level)
    if cut == values[0]:
        next_value = np.searchsorted(values, values[0], side="right")
        cut = float(values[min(next_value, len(values) - 1)])
    return cut


def _as_strict(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32 cuts with x < cut wherever the tree has x ≤ threshold, for every float32 x."""
    rounded = thresholds.astype(np.float32)
    next_up = np.nextafter(rounded, np.float32(np.inf))
    return np.where(rounded.astype(np.float64) <= thresholds, next_up, rounded)
