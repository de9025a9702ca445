"""The payment network's local model: how suspicious a transaction looks without any bank.

    p(x)     = mean over trees of the share of anomalies in the leaf that x reaches
    score(x) = log-odds of p(x) + base

The base turns the odds in the samples that the trees were grown on into those among all rows.  How
it is fitted is `detection.fitting`.  The fitted model is arrays (`tree_ensemble`), stored as a
`LocalModelRecord`; scikit-learn is needed for fitting only.

Its reasons are in terms of the payment network's own features (`local_reasons`).  A feature is a
reason as far as the score would fall if it had its usual value, the median of training, and all
others stayed as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.tree_ensemble import TreeEnsemble
from pv4fad.store.records import Record, from_bytes, to_bytes

Features = NDArray[np.float32]
Labels = NDArray[np.int8]

_LEAST_FALL = 0.1  # of the log-odds, to be a reason
_ROWS_AT_ONCE = 100  # whose reasons are looked for: some megabytes


@dataclass(frozen=True)
class LocalModelRecord(Record):
    """A local model as it is stored; the arrays are those of its `TreeEnsemble`."""

    names: tuple[str, ...]
    base: float
    n_nodes: NDArray[np.int32] = field(repr=False)
    feature: NDArray[np.int16] = field(repr=False)
    threshold: NDArray[np.float32] = field(repr=False)
    missing_right: NDArray[np.bool_] = field(repr=False)
    value: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class LocalModel:
    """A fitted model, or one from a store."""

    names: tuple[str, ...]
    base: float  # log-odds that are added; all there is if there are no trees
    trees: TreeEnsemble = field(repr=False)  # leaf values: shares of anomalies

    def score(self, features: Features) -> NDArray[np.float32]:
        """The log-odds of an anomaly, by row."""
        if not len(self.trees):
            return np.full(len(features), self.base, np.float32)
        return self.log_odds(self.trees.total(features) / len(self.trees))

    def scores_without(self, features: Features, usual: Features) -> NDArray[np.float32]:
        """(rows, features): the score if this feature had its usual value."""
        if not len(self.trees):
            return np.full(features.shape, self.base, np.float32)
        totals = [
            self.trees.totals_without(features[start : start + _ROWS_AT_ONCE], usual)
            for start in range(0, len(features), _ROWS_AT_ONCE)
        ]
        return self.log_odds(np.concatenate([features[:0], *totals]) / len(self.trees))

    def log_odds(self, shares: NDArray[np.float64]) -> NDArray[np.float32]:
        """From mean shares of anomalies in leaves."""
        share = np.clip(shares, 0.0, 1.0)
        # Half a tree more on either side: no leaf is without doubt.
        doubt = 0.5 / len(self.trees)
        odds = (share + doubt) / (1.0 - share + doubt)
        return (np.log(odds) + self.base).astype(np.float32)

    def to_bytes(self) -> bytes:
        """The model as a record without code; equal models give equal bytes."""
        trees = self.trees
        return to_bytes(
            LocalModelRecord(
                self.names,
                self.base,
                trees.n_nodes,
                trees.feature,
                trees.threshold,
                trees.missing_right,
                trees.value,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> LocalModel:
        """The model again; StoreError if it is damaged, DataError if its arrays are no trees."""
        stored = from_bytes(LocalModelRecord, data)
        trees = TreeEnsemble(
            len(stored.names),
            stored.n_nodes,
            stored.feature,
            stored.threshold,
            stored.missing_right,
            stored.value,
        )
        return cls(stored.names, stored.base, trees)


def usual_values(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The median of each feature; 0 where it is never known."""
    medians = []
    for column in features.T:
        known = column[~np.isnan(column)]
        medians.append(np.median(known) if len(known) else 0.0)
    return np.array(medians, np.float32)


def local_reasons(
    model: LocalModel,
    features: NDArray[np.float32],
    usual: NDArray[np.float32],
    most: int = 3,
) -> list[list[tuple[str, float, float]]]:
    """For each row up to `most` features, the strongest reason first: name, value, usual value."""
    fall = model.score(features)[:, np.newaxis] - model.scores_without(features, usual)
    strongest = np.argsort(-fall, axis=1, kind="stable")[:, :most]
    return [
        [
            (model.names[column], float(row[column]), float(usual[column]))
            for column in order
            if falls[column] >= _LEAST_FALL
        ]
        for row, falls, order in zip(features, fall, strongest, strict=True)
    ]
