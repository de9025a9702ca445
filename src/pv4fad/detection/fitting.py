"""Fitting the local model, with an honest score of every row it was fitted to.

A row's score by a model that knows the row tells nothing about new rows.  So no tree sees all:

    round r = 0, 1, …    parts the groups of rows into four, at random
    bag (r, p)           all rows but those of part p: all anomalies among them, and a sample of the
                         normal rows; some trees of either kind are grown on these
    model                the trees of all bags
    honest score         of a row: by the trees of the bags that left out the part of its group, one
                         in every round

Each bag has its own sample of normal rows, because 0.1 % of anomalies would drown among all of
them.  Half of the trees of a bag test the best thresholds, half of them thresholds drawn at random
(extremely randomised trees).  A missing value is taken to be lower than all values of its feature
(`without_missing`).

Bags are fitted in threads.  What is drawn for a bag depends on its number, not on the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pv4fad.detection.local_model import Features, Labels, LocalModel
from pv4fad.detection.tree_ensemble import MAX_DEPTH, TreeEnsemble, breadth_first
from pv4fad.errors import DataError
from pv4fad.workers import available_cores

ROUNDS = 6
PARTS = 4
NORMAL_PER_ANOMALY = 30
LEAST_NORMAL = 5_000  # in a sample: what is normal takes some rows to show, however few anomalies
TREES_OF_A_KIND = 4  # in a bag
# Best thresholds take nine tenths of the time.  With values in 255 equally full bins they take a
# quarter less, and lose a tenth of the average precision (detection-study.md).
_TREES: dict[str, Any] = {"min_samples_leaf": 2, "max_depth": MAX_DEPTH}
KINDS: tuple[tuple[type[DecisionTreeClassifier], float], ...] = (  # share of features for a test
    (DecisionTreeClassifier, 0.3),
    (ExtraTreeClassifier, 0.5),
)
_NOTHING = -1


@dataclass(frozen=True)
class _Bag:
    """The trees that saw nothing of one part of the groups."""

    part_of: NDArray[np.int8] = field(repr=False)  # by group
    left_out: int
    trees: TreeEnsemble = field(repr=False)
    n_anomalies: int
    n_normal: int


@dataclass(frozen=True)
class FittedModel:
    """A local model, and what knows which of its trees saw which rows."""

    model: LocalModel = field(repr=False)
    _group_of: NDArray[np.int64] = field(repr=False)
    _bags: tuple[_Bag, ...] = field(repr=False)
    _prior: float

    def honest_scores(
        self, features: Features, rows: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float32]:
        """Of these rows of the features that the model was fitted to, each by trees that saw no
        row of its group; as telling as scores of new rows.

        Where there are no such trees, because all anomalies are of its group, or all rows: the
        log-odds of an anomaly among all rows.
        """
        group = self._group_of[rows]
        asked = features[rows]
        total, n_trees = np.zeros(len(group)), np.zeros(len(group), np.int64)
        for bag in self._bags:
            who = np.flatnonzero(bag.part_of[group] == bag.left_out)
            total[who] += bag.trees.total(asked[who])
            n_trees[who] += len(bag.trees)
        known = n_trees > 0
        scores = np.full(len(group), self._prior, np.float32)
        if known.any():
            scores[known] = self.model.log_odds(total[known] / n_trees[known])
        return scores


def fit_local_model(
    features: Features,
    names: Sequence[str],
    labels: Labels,
    groups: NDArray[np.int64],
    *,
    seed: int,
) -> FittedModel:
    """The model of all rows.

    Where all rows have label 1 there is nothing to tell apart: all scores are
    log((anomalies + ½) / (normal rows + ½)).  With one group only the model is fitted to all rows
    at once, and there are no honest scores.
    """
    _check(features, names, labels, groups)
    group_of = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    known, has_missing = without_missing(features)
    is_of_anomaly = np.zeros(int(group_of.max()) + 1, np.bool_)
    is_of_anomaly[group_of[labels == 1]] = True
    parts = [
        _parts(is_of_anomaly, np.random.default_rng([seed, number])) for number in range(ROUNDS)
    ]

    def fit_bag(number: int) -> _Bag | None:
        part_of, left_out = parts[number // PARTS], number % PARTS
        if len(is_of_anomaly) == 1:
            left_out = _NOTHING  # or nothing would be left
        seen = part_of[group_of] != left_out
        anomalies = np.flatnonzero(seen & (labels == 1))
        normal = np.flatnonzero(seen & (labels == 0))
        if not len(anomalies) or not len(normal):
            return None
        rng = np.random.default_rng([seed, ROUNDS, number])
        n_normal = min(len(normal), max(NORMAL_PER_ANOMALY * len(anomalies), LEAST_NORMAL))
        sample = rng.choice(normal, n_normal, replace=False)
        rows = np.sort(np.concatenate([anomalies, sample]))
        # Trees look at one feature at a time: faster with a feature in one piece.
        grown = _grow(np.asfortranarray(known[rows]), labels[rows], rng)
        trees = TreeEnsemble.of(len(names), [as_arrays(tree, has_missing) for tree in grown])
        return _Bag(part_of, left_out, trees, len(anomalies), n_normal)

    with ThreadPoolExecutor(available_cores()) as threads:
        bags = [bag for bag in threads.map(fit_bag, range(ROUNDS * PARTS)) if bag is not None]
    n_anomalies = int(np.count_nonzero(labels))
    n_normal = len(labels) - n_anomalies
    prior = float(np.log((n_anomalies + 0.5) / (n_normal + 0.5)))
    base = prior
    if bags:
        # From the odds in the bags to those among all rows.
        in_bags = sum(bag.n_normal for bag in bags) / sum(bag.n_anomalies for bag in bags)
        base = float(np.log(in_bags / (n_normal / n_anomalies)))
    trees = TreeEnsemble.of(len(names), [bag.trees for bag in bags])
    return FittedModel(LocalModel(tuple(names), base, trees), group_of, tuple(bags), prior)


def _parts(is_of_anomaly: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int8]:
    """A part for each group; those with anomalies are spread evenly, too."""
    order = np.lexsort((rng.random(len(is_of_anomaly)), ~is_of_anomaly))
    part_of = np.empty(len(order), np.int8)
    part_of[order] = np.arange(len(order)) % PARTS
    return part_of


def _grow(rows: Features, labels: Labels, rng: np.random.Generator) -> list[DecisionTreeClassifier]:
    return [
        kind(**_TREES, max_features=share, random_state=int(rng.integers(2**32))).fit(
            rows, labels, check_input=False
        )
        for kind, share in KINDS
        for _ in range(TREES_OF_A_KIND)
    ]


def without_missing(features: Features) -> tuple[Features, NDArray[np.bool_]]:
    """The features with a low value wherever one is missing, and which of them have missing ones.

    The trees of scikit-learn 1.8 accept missing values, but if a few rows miss several values some
    of their thresholds are wrong, or not numbers.  The low value is as far below the smallest as
    that is below the largest: a threshold drawn at random is as likely above it as among the rest.
    """
    has_missing = np.array([bool(np.isnan(column).any()) for column in features.T], np.bool_)
    if not has_missing.any():
        return features, has_missing
    filled = features.copy()
    for column in np.flatnonzero(has_missing):
        missing = np.isnan(features[:, column])
        known = features[~missing, column].astype(np.float64)
        least, most = (known.min(), known.max()) if len(known) else (0.0, 0.0)
        # Of constant or very close values it has to be another number in float32, too.
        low = least - (max(most - least, 1e-6 * abs(least)) or 1.0)
        filled[missing, column] = max(low, np.finfo(np.float32).min)
    return filled, has_missing


def as_arrays(fitted: DecisionTreeClassifier, has_missing: NDArray[np.bool_]) -> TreeEnsemble:
    """A tree fitted to features `without_missing`, for features with missing values.

    Leaf values are shares of label 1.  A missing value goes left, as the low one did; where there
    was none in training, to the larger side.
    """
    tree = fitted.tree_
    return breadth_first(
        fitted.n_features_in_,
        (tree.children_left, tree.children_right),
        tree.feature,
        threshold=tree.threshold,
        missing_right=(tree.missing_go_to_left == 0) & ~has_missing[np.maximum(tree.feature, 0)],
        value=tree.value[:, 0, 1],
    )


def _check(
    features: Features, names: Sequence[str], labels: Labels, groups: NDArray[np.int64]
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
    if not labels.any():
        raise DataError("no row has label 1: there is no anomaly to learn from")
