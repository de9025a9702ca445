"""The payment network's local model: how suspicious a transaction looks without any bank.

Random forests and extremely randomised trees of scikit-learn, in several copies.  Each copy sees
all anomalies and its own sample of normal rows, because 0.1 % of anomalies would drown otherwise:

    p(x)     = mean over trees of the share of anomalies in the leaf that x reaches
    score(x) = log-odds of p(x) + log(normal rows in a sample / normal rows)

The last term turns the odds in a sample into those among all rows.  A missing value is taken to be
lower than all values of its feature (`without_missing`).  The fitted model is arrays
(`tree_ensemble`), stored as a `LocalModelRecord`; scikit-learn is needed for fitting only.

Its reasons are in terms of the payment network's own features (`local_reasons`).  A feature is a
reason as far as the score would fall if it had its usual value, the median of training, and all
others stayed as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from warnings import catch_warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import GroupKFold

from pv4fad.detection.tree_ensemble import MAX_DEPTH, TreeEnsemble, breadth_first
from pv4fad.errors import DataError, ParameterError
from pv4fad.store.records import Record, from_bytes, to_bytes

Features = NDArray[np.float32]
Labels = NDArray[np.int8]

COPIES = 4
NORMAL_PER_ANOMALY = 30
LEAST_NORMAL = 5_000  # in a sample: what is normal takes some rows to show, however few anomalies
_LEAST_FALL = 0.1  # of the log-odds, to be a reason
_TREES: dict[str, Any] = {
    "n_estimators": 25,
    "min_samples_leaf": 2,
    "max_depth": MAX_DEPTH,
    "n_jobs": -1,  # threads; the trees are the same for any number of them
}
FORESTS: tuple[Callable[[int], Any], ...] = (  # by random state
    lambda state: RandomForestClassifier(**_TREES, max_features=0.3, random_state=state),
    lambda state: ExtraTreesClassifier(**_TREES, max_features=0.5, random_state=state),
)


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

    @classmethod
    def fit(
        cls,
        features: Features,
        names: Sequence[str],
        labels: Labels,
        groups: NDArray[np.int64],
        *,
        seed: int,
        folds: int = 5,
    ) -> tuple[LocalModel, NDArray[np.float32]]:
        """The model of all rows, and out-of-fold scores: of each row by a model that saw no row of
        its group, so that they tell as much as scores of new rows do.

        Where all rows have label 1, or there is only one group, there is nothing to tell apart
        (honestly): all scores are log((anomalies + ½) / (normal rows + ½)).  The same holds within
        a fold if the rows outside have one label only, as when all anomalies are of one group.
        With fewer groups than `folds` there are as many folds as groups.
        """
        _check(features, names, labels, groups, folds)
        model = cls._fit_rows(features, names, labels, np.random.default_rng([seed, folds]))
        scores = np.full(len(labels), _prior(labels), np.float32)
        n_folds = min(folds, len(np.unique(groups)))
        if n_folds < 2 or len(np.unique(labels)) < 2:
            return model, scores
        splits = GroupKFold(n_folds, shuffle=True, random_state=seed % 2**32)
        for fold, (others, own) in enumerate(splits.split(features, labels, groups)):
            rng = np.random.default_rng([seed, folds, fold])
            part = cls._fit_rows(features[others], names, labels[others], rng)
            scores[own] = part.score(features[own])
        return model, scores

    def score(self, features: Features) -> NDArray[np.float32]:
        """The log-odds of an anomaly, by row."""
        if not len(self.trees):
            return np.full(len(features), self.base, np.float32)
        share = np.clip(self.trees.total(features) / len(self.trees), 0.0, 1.0)
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

    @classmethod
    def _fit_rows(
        cls, features: Features, names: Sequence[str], labels: Labels, rng: np.random.Generator
    ) -> LocalModel:
        anomalies, normal = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
        trees: list[TreeEnsemble] = []
        if not len(anomalies) or not len(normal):
            return cls(tuple(names), _prior(labels), TreeEnsemble.of(len(names), trees))
        known, has_missing = without_missing(features)
        n_sample = min(len(normal), max(NORMAL_PER_ANOMALY * len(anomalies), LEAST_NORMAL))
        for _ in range(COPIES):
            sample = rng.choice(normal, n_sample, replace=False)
            rows = np.sort(np.concatenate([anomalies, sample]))
            for forest in FORESTS:
                fitted = forest(int(rng.integers(2**32)))
                # Its threads change the warning filters of the process, and may leave them changed.
                with catch_warnings():
                    fitted.fit(known[rows], labels[rows])
                trees += forest_trees(fitted, has_missing)
        base = float(np.log(n_sample / len(normal)))
        return cls(tuple(names), base, TreeEnsemble.of(len(names), trees))


def without_missing(features: Features) -> tuple[Features, NDArray[np.bool_]]:
    """The features with a low value wherever one is missing, and which of them have missing ones.

    The trees of scikit-learn 1.8 accept missing values, but if a few rows miss several values some
    of their thresholds are wrong, or not numbers.  The low value is as far below the smallest as
    that is below the largest: a threshold drawn at random is as likely above it as among the rest.
    """
    missing = np.isnan(features)
    has_missing = np.asarray(missing.any(axis=0))
    if not has_missing.any():
        return features, has_missing
    filled = features.copy()
    for column in np.flatnonzero(has_missing):
        known = features[~missing[:, column], column].astype(np.float64)
        least, most = (known.min(), known.max()) if len(known) else (0.0, 0.0)
        # Of constant or very close values it has to be another number in float32, too.
        low = least - (max(most - least, 1e-6 * abs(least)) or 1.0)
        filled[missing[:, column], column] = max(low, np.finfo(np.float32).min)
    return filled, has_missing


def forest_trees(
    fitted: RandomForestClassifier | ExtraTreesClassifier, has_missing: NDArray[np.bool_]
) -> list[TreeEnsemble]:
    """The trees of a forest fitted to features `without_missing`, for features with missing values.

    Leaf values are shares of label 1.  A missing value goes left, as the low one did; where there
    was none in training, to the larger side.
    """
    return [
        breadth_first(
            fitted.n_features_in_,
            (tree.children_left, tree.children_right),
            tree.feature,
            threshold=tree.threshold,
            missing_right=(tree.missing_go_to_left == 0)
            & ~has_missing[np.maximum(tree.feature, 0)],
            value=tree.value[:, 0, 1],
        )
        for tree in (estimator.tree_ for estimator in fitted.estimators_)
    ]


def _prior(labels: Labels) -> float:
    n_anomalies = int(np.count_nonzero(labels))
    return float(np.log((n_anomalies + 0.5) / (len(labels) - n_anomalies + 0.5)))


def _check(
    features: Features,
    names: Sequence[str],
    labels: Labels,
    groups: NDArray[np.int64],
    folds: int,
) -> None:
    if features.ndim != 2 or features.shape[1] != len(names) or not len(names):
        raise DataError(f"features of shape {features.shape} for {len(names)} names")
    if not len(features) == len(labels) == len(groups):
        raise DataError(
            f"{len(features)} rows of features, {len(labels)} labels, {len(groups)} groups"
        )
    if not len(labels):
        raise DataError("there are no rows to fit the local model to")
    if not np.isin(labels, (0, 1)).all():
        raise DataError("labels of the local model are 0 and 1")
    if np.isinf(features).any():
        raise DataError("a feature is infinite; give NaN where a value is missing")
    if folds < 2:
        raise ParameterError(f"folds {folds}: give at least 2")
    if not labels.any():
        raise DataError("no row has label 1: there is no anomaly to learn from")


def usual_values(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The median of each feature; 0 where it is never known."""
    known = np.where(np.isfinite(features).any(axis=0), features, np.float32(0))
    return np.asarray(np.nanmedian(known, axis=0), np.float32)


def local_reasons(
    model: LocalModel,
    features: NDArray[np.float32],
    usual: NDArray[np.float32],
    most: int = 3,
) -> list[list[str]]:
    """For each payment up to `most` features with their values, the strongest reason first."""
    if not len(features):
        return []
    score = model.score(features)
    fall = np.empty(features.shape, np.float32)
    for column, value in enumerate(usual):
        changed = features.copy()
        changed[:, column] = value
        fall[:, column] = score - model.score(changed)
    strongest = np.argsort(-fall, axis=1, kind="stable")[:, :most]
    return [
        [
            f"{model.names[column]} {row[column]:.4g} (usually {usual[column]:.4g})"
            for column in order
            if falls[column] >= _LEAST_FALL
        ]
        for row, falls, order in zip(features, fall, strongest, strict=True)
    ]
