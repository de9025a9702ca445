"""The payment network's local model: how suspicious a transaction looks without any bank.

Two kinds of trees, of scikit-learn, each in several copies that see all anomalies and different
samples of normal rows, because 0.1 % of anomalies would drown otherwise:

    boosting   B(x) = mean over copies of the log-odds
    forest     F(x) = log-odds of the mean share of anomalies in the leaves of all trees
    score(x)   = (B(x) + F(x)) / 2 + log(normal rows in a sample / normal rows)

The last term turns the log-odds of a sample into those of all rows.  The model is kept as arrays
(`tree_ensemble`, `model_file`); scikit-learn is needed for fitting only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from pv4fad.detection.model_file import ModelContent, read_model, write_model
from pv4fad.detection.tree_ensemble import LEAF, TreeEnsemble, breadth_first, single_leaf
from pv4fad.errors import DataError, ParameterError

Features = NDArray[np.float32]
Labels = NDArray[np.int8]

COPIES = 4
NORMAL_PER_ANOMALY = 30
LEAST_NORMAL = 5_000  # in a sample: what is normal takes some rows to show, however few anomalies
BOOSTING = {
    "learning_rate": 0.1,
    "max_iter": 60,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 10,
    "l2_regularization": 1.0,
    "max_features": 0.3,
    "early_stopping": False,
}
FOREST = {"n_estimators": 25, "min_samples_leaf": 2, "max_features": 0.5}


@dataclass(frozen=True)
class LocalModel:
    """A fitted model, or one from a file."""

    names: tuple[str, ...]
    base: float  # log-odds that are added; all there is if there are no trees
    boosting: TreeEnsemble = field(repr=False)
    forest: TreeEnsemble = field(repr=False)

    def __post_init__(self) -> None:
        if bool(len(self.boosting)) != bool(len(self.forest)):
            raise DataError("local model: trees of one kind only")

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

        Where only one label occurs, or there is only one group, there is nothing to tell apart
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
        if not len(self.forest):
            return np.full(len(features), self.base, np.float32)
        boosted = self.boosting.total(features)
        share = np.clip(self.forest.total(features), 0.0, 1.0)
        # Half a tree more on either side: no leaf is without doubt.
        doubt = 0.5 / len(self.forest)
        voted = np.log((share + doubt) / (1.0 - share + doubt))
        return ((boosted + voted) / 2.0 + self.base).astype(np.float32)

    def to_bytes(self) -> bytes:
        """The model as a file without code; equal models give equal bytes."""
        return write_model(ModelContent(self.names, self.base, (self.boosting, self.forest)))

    @classmethod
    def from_bytes(cls, data: bytes) -> LocalModel:
        """The model of a file; DataError if that is damaged, of another version, or no model."""
        content = read_model(data, n_ensembles=2)
        return cls(content.names, content.base, *content.ensembles)

    @classmethod
    def _fit_rows(
        cls, features: Features, names: Sequence[str], labels: Labels, rng: np.random.Generator
    ) -> LocalModel:
        anomalies, normal = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
        n_features = features.shape[1]
        if not len(anomalies) or not len(normal):
            none = TreeEnsemble.of(n_features, [])
            return cls(tuple(names), _prior(labels), none, none)
        n_sample = min(len(normal), max(NORMAL_PER_ANOMALY * len(anomalies), LEAST_NORMAL))
        boosting: list[TreeEnsemble] = []
        forest: list[TreeEnsemble] = []
        for _ in range(COPIES):
            sample = rng.choice(normal, n_sample, replace=False)
            rows = np.sort(np.concatenate([anomalies, sample]))
            state = int(rng.integers(2**32))
            # Samples are small: more threads cost more than they bring, all the more on a busy
            # machine.
            with threadpool_limits(limits=1):
                boosting += boosted_trees(features[rows], labels[rows], state)
            forest += forest_trees(features[rows], labels[rows], state)
        base = float(np.log(n_sample / len(normal)))
        return cls(
            tuple(names),
            base,
            TreeEnsemble.of(n_features, boosting),
            TreeEnsemble.of(n_features, forest),
        )


def boosted_trees(features: Features, labels: Labels, state: int) -> list[TreeEnsemble]:
    """Trees whose values add up to a COPIES-th of the log-odds."""
    fitted = HistGradientBoostingClassifier(**BOOSTING, random_state=state).fit(features, labels)
    trees = [single_leaf(features.shape[1], float(fitted._baseline_prediction.item()) / COPIES)]
    for (predictor,) in fitted._predictors:
        nodes = predictor.nodes
        trees.append(
            breadth_first(
                features.shape[1],
                (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)),
                np.where(nodes["is_leaf"], LEAF, nodes["feature_idx"]),
                threshold=nodes["num_threshold"],
                missing_right=nodes["missing_go_to_left"] == 0,
                value=nodes["value"] / COPIES,
            )
        )
    return trees


def forest_trees(features: Features, labels: Labels, state: int) -> list[TreeEnsemble]:
    """Trees whose values add up to a COPIES-th of the mean share of anomalies."""
    fitted = ExtraTreesClassifier(**FOREST, random_state=state).fit(features, labels)
    return [
        breadth_first(
            features.shape[1],
            (tree.children_left, tree.children_right),
            tree.feature,
            threshold=tree.threshold,
            missing_right=tree.missing_go_to_left == 0,
            value=tree.value[:, 0, 1] / (COPIES * len(fitted.estimators_)),
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
