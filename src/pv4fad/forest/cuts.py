"""Cut points: where on its feature a split cuts (protocol.md §11.1).

A tree draws *levels* in (0, 1), which do not depend on data; the payment network's own training
data turns a level into a value, that share of the way from the feature's least value to its
greatest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError


class CutPoints:
    """Turns levels into cuts on the features of one training set."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        if features.ndim != 2:
            raise DataError(f"features of shape {features.shape}: need a row for each transaction")
        self._features = features
        self._ranges: dict[int, tuple[float, float]] = {}

    def at(self, feature: int, level: float) -> float:
        """The cut at this level; rises with the level."""
        low, high = self._range(feature)
        return float(np.float32(low + (high - low) * level))

    def _range(self, feature: int) -> tuple[float, float]:
        if feature not in self._ranges:
            column = self._features[:, feature]
            finite = column[np.isfinite(column)]
            # All missing: every transaction goes above, wherever the cut is.
            ends = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
            self._ranges[feature] = ends
        return self._ranges[feature]
