"""How well scores find anomalies, and how sure one can be of it.

average precision   Σ (recall_i - recall_{i-1})·precision_i over the distinct scores, highest
                    first: the area under the step curve, as scikit-learn defines it
at an alert budget  the highest scores are reviewed, a fixed share of all transactions;
                    precision is the share of the alerts that are anomalies, recall the share
                    of the anomalies among the alerts.  Where the budget ends among
                    transactions of equal score, which of them are reviewed is chance: what
                    is counted is the expectation over a random choice among the tied ones
interval            95 %: a percentile bootstrap over the transactions of one run

Labels and scores are first reduced to a ranking, with ties, in a few numbers:

    score  high                                                             low
           between[0]  step 0  between[1]  step 1  ...  step k-1  rest

A step is one distinct score that some positive has: `positives` of them, tied with `ties`
negatives.  `between` counts the negatives above a step and below the step before it.  The measures
depend on nothing else, so a million transactions with a thousand anomalies become some three
thousand numbers; that makes the bootstrap cheap.  All arrays may have leading axes: one ranking per
resample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from pv4fad.errors import DataError, ParameterError

Counts = NDArray[np.int64]
ALERT_BUDGETS = (0.0005, 0.001, 0.002)
"""Shares of all transactions that are reviewed."""

N_RESAMPLES = 1000
_CONFIDENCE = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """Transactions by descending score; see the module."""

    between: Counts
    positives: Counts
    ties: Counts
    rest: Counts

    @classmethod
    def of(cls, labels: ArrayLike, scores: ArrayLike) -> Self:
        """The ranking of labels (0 or 1) by scores; DataError where no measure is defined."""
        positive, score = checked(labels, scores)
        steps = np.unique(score[positive])  # ascending
        counted = np.bincount(np.searchsorted(steps, score[positive]), minlength=len(steps))
        negatives = np.sort(score[~positive])
        below = np.searchsorted(negatives, steps, side="left")
        up_to = np.searchsorted(negatives, steps, side="right")
        gaps = np.append(below[1:], len(negatives)) - up_to
        return cls(
            between=gaps[::-1].astype(np.int64),
            positives=counted[::-1].astype(np.int64),
            ties=(up_to - below)[::-1].astype(np.int64),
            rest=np.asarray(below[0], dtype=np.int64),
        )

    @property
    def n_positives(self) -> Counts:
        return np.asarray(self.positives.sum(axis=-1))

    @property
    def n(self) -> Counts:
        """All transactions."""
        negatives = self.between.sum(axis=-1) + self.ties.sum(axis=-1) + self.rest
        return np.asarray(self.n_positives + negatives)

    def resampled(self, times: int, rng: np.random.Generator) -> Ranking:
        """As many transactions again, drawn with replacement, `times` over.

        The counts of a resample are multinomial: the same as drawing row by row.
        """
        cells = np.concatenate([self.between, self.positives, self.ties, [self.rest]])
        n, k = int(cells.sum()), len(self.positives)
        drawn = rng.multinomial(n, cells / n, size=times)
        return Ranking(
            between=drawn[:, :k],
            positives=drawn[:, k : 2 * k],
            ties=drawn[:, 2 * k : 3 * k],
            rest=drawn[:, 3 * k],
        )


def checked(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Labels and scores of the same transactions, one positive at least, all scores finite."""
    label, score = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if label.ndim != 1 or label.shape != score.shape:
        raise DataError(f"{label.shape} labels do not fit {score.shape} scores")
    positive = label == 1
    if not np.all(positive | (label == 0)):
        raise DataError("labels must be 0 or 1")
    if not np.all(np.isfinite(score)):
        raise DataError(f"{int(np.sum(~np.isfinite(score))):,} scores are not numbers")
    if not positive.any():
        raise DataError("no row is labelled 1: there is nothing to find")
    return positive, score


@dataclass(frozen=True)
class Interval:
    """A mean or an estimate, and the ends of its 95 % interval."""

    value: float
    low: float | None
    """None: a single repetition says nothing about the spread."""
    high: float | None


@dataclass(frozen=True)
class AtBudget:
    """What an alert budget buys."""

    share: float
    alerts: int
    found: float
    """Anomalies among the alerts; the expectation where the budget ends among equal scores."""
    precision: float
    recall: float


@dataclass(frozen=True)
class Curve:
    """Precision and recall at each distinct score, from the highest to the lowest."""

    scores: Floats
    precision: Floats
    recall: Floats


def share_interval(cases: int, of: int) -> Interval:
    """A share of some things, at least one, with the interval of Clopper and Pearson."""
    tail = (1 - _CONFIDENCE) / 2
    low = 0.0 if cases == 0 else float(betaincinv(cases, of - cases + 1, tail))
    high = 1.0 if cases == of else float(betaincinv(cases + 1, of - cases, 1 - tail))
    return Interval(cases / of, low, high)


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """The area under the precision-recall steps; DataError if nothing is labelled 1."""
    return float(_average_precision(Ranking.of(labels, scores)))


def at_budget(labels: ArrayLike, scores: ArrayLike, share: float) -> AtBudget:
    """Precision and recall if this share of all transactions is looked at, at least one."""
    ranking = Ranking.of(labels, scores)
    alerts = _alerts(int(ranking.n), share)
    found = float(_found(ranking, alerts))
    return AtBudget(share, alerts, found, found / alerts, found / int(ranking.n_positives))


def precision_recall_curve(labels: ArrayLike, scores: ArrayLike) -> Curve:
    """The curve whose step area is the average precision."""
    positive, score = checked(labels, scores)
    order = np.argsort(-score, kind="stable")
    found = np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    return Curve(score[order][last], found[last] / (last + 1), found[last] / found[-1])


def average_precision_interval(
    labels: ArrayLike, scores: ArrayLike, *, seed: int, resamples: int = N_RESAMPLES
) -> Interval:
    """Average precision of one run, with a bootstrap interval over its transactions."""
    return _bootstrap(Ranking.of(labels, scores), _average_precision, seed, resamples)


def recall_interval(
    labels: ArrayLike, scores: ArrayLike, share: float, *, seed: int, resamples: int = N_RESAMPLES
) -> Interval:
    """Recall at an alert budget, with a bootstrap interval over the transactions of one run."""

    def recall(ranking: Ranking) -> Floats:
        alerts = _alerts(int(ranking.n.flat[0]), share)
        return _found(ranking, alerts) / ranking.n_positives

    return _bootstrap(Ranking.of(labels, scores), recall, seed, resamples)


def _bootstrap(
    ranking: Ranking, measure: Callable[[Ranking], Floats], seed: int, resamples: int
) -> Interval:
    drawn = ranking.resampled(resamples, np.random.default_rng(seed))
    # Without a positive a resample has no value: left out, as if it had not been drawn.
    with np.errstate(invalid="ignore"):
        values = measure(drawn)[drawn.n_positives > 0]
    if len(values) == 0:
        raise ParameterError("a bootstrap interval needs at least one resample")
    low, high = np.quantile(values, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Interval(float(measure(ranking)), float(low), float(high))


def _average_precision(ranking: Ranking) -> Floats:
    found = np.cumsum(ranking.positives, axis=-1)
    alerts = np.cumsum(ranking.between + ranking.positives + ranking.ties, axis=-1)
    precision = found / np.maximum(alerts, 1)  # 0 / 1 where a resample has nothing yet
    weighted: Floats = (ranking.positives * precision).sum(axis=-1) / ranking.n_positives
    return weighted


def _found(ranking: Ranking, alerts: int) -> Floats:
    """How many positives are expected among the first `alerts`."""
    tied = ranking.positives + ranking.ties
    ends = np.cumsum(ranking.between + tied, axis=-1)
    taken = np.clip(alerts - (ends - tied), 0, tied)
    expected: Floats = (ranking.positives * taken / np.maximum(tied, 1)).sum(axis=-1)
    return expected


def _alerts(n: int, share: float) -> int:
    if not 0 < share <= 1:
        raise ParameterError(f"an alert budget is a share between 0 and 1, not {share}")
    return max(1, round(share * n))
