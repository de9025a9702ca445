"""What the measures need of labels and scores: a ranking, with ties, in a few numbers.

    score  high                                                             low
           between[0]  step 0  between[1]  step 1  ...  step k-1  rest

A step is one distinct score that some positive has: `positives` of them, tied with `ties`
negatives.  `between` counts the negatives above a step and below the step before it.  Average
precision, and precision and recall at any number of alerts, depend on nothing else, so a million
transactions with a thousand anomalies become some three thousand numbers; that makes the bootstrap
cheap.  All arrays may have leading axes: one ranking per resample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pv4fad.errors import DataError

Counts = NDArray[np.int64]


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
        raise DataError(f"{int(np.sum(~np.isfinite(score))):,} scores are no numbers")
    if not positive.any():
        raise DataError("no transaction is labelled 1: there is nothing to find")
    return positive, score
