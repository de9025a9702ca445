"""What the local score is worth, learnt from honest scores of training rows.

The local model knows the rows that it was fitted to.  So a sample of them, all anomalies and
`SAMPLE` others, is scored honestly: each row by those trees that saw no row of its group
(`detection.fitting`).  These scores tell two things: log-odds offset + slope·score, and how scores
of new rows are distributed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pv4fad.detection.local_model import Features

if TYPE_CHECKING:  # scikit-learn takes longer to import than all else
    from pv4fad.detection.fitting import FittedModel

Floats = NDArray[np.float64]

SAMPLE = 100_000
"""Label-0 rows in the sample; label 1 is rare, and all of it is."""
LEAST_ANOMALIES = 100
"""To find the scale with; with fewer the score is taken as it is."""
_MEAN, _DEVIATION = np.array([0.0, 1.0]), np.array([1.0, 0.5])  # of offset and slope, beforehand


@dataclass(frozen=True)
class LocalScale:
    """What the local score is worth: log-odds offset + slope·score."""

    offset: float = 0.0
    slope: float = 1.0

    @classmethod
    def fit(
        cls,
        scores: NDArray[np.floating],
        labels: NDArray[np.int8],
        all_labels: NDArray[np.int8],
    ) -> Self:
        """From honest scores of the rows of `sample_rows(all_labels, ...)`."""
        score = scores.astype(np.float64)
        weights = sample_weights(labels, all_labels)
        positive, negative = weights * (labels == 1), weights * (labels == 0)

        def loss(parameters: Floats) -> tuple[float, Floats]:
            z = parameters[0] + parameters[1] * score
            off = (parameters - _MEAN) / _DEVIATION
            value = negative @ np.logaddexp(0.0, z) + positive @ np.logaddexp(0.0, -z)
            pull = negative * expit(z) - positive * expit(-z)
            gradient = np.array([pull.sum(), pull @ score]) + off / _DEVIATION
            return float(value + 0.5 * off @ off), gradient

        found = minimize(loss, _MEAN, jac=True, method="L-BFGS-B", options={"maxiter": 100})
        return cls(float(found.x[0]), float(found.x[1]))

    def log_odds(self, scores: NDArray[np.floating]) -> Floats:
        return np.asarray(self.offset + self.slope * scores.astype(np.float64))


@dataclass(frozen=True)
class HonestSample:
    """Training rows with honest local scores, and the scale that follows from them."""

    scale: LocalScale
    rows: NDArray[np.int64] = field(repr=False)
    scores: NDArray[np.float32] = field(repr=False)


def honest_sample(
    fitted: FittedModel, features: Features, labels: NDArray[np.int8], seed: int
) -> HonestSample:
    """The sample of `sample_rows`, from the rows that the model was fitted to."""
    rows = sample_rows(labels, seed)
    scores = fitted.honest_scores(features, rows)
    enough = int(labels.sum()) >= LEAST_ANOMALIES
    return HonestSample(
        LocalScale.fit(scores, labels[rows], labels) if enough else LocalScale(), rows, scores
    )


def sample_rows(labels: NDArray[np.int8], seed: int) -> NDArray[np.int64]:
    """All anomalies, and a sample of the others."""
    normal = np.flatnonzero(labels == 0)
    rng = np.random.default_rng([seed, 2])
    chosen = rng.choice(normal, min(SAMPLE, len(normal)), replace=False)
    return np.sort(np.concatenate([np.flatnonzero(labels == 1), chosen]))


def sample_weights(labels: NDArray[np.int8], all_labels: NDArray[np.int8]) -> Floats:
    """How many rows each row of the sample stands for."""
    of_normal = int((all_labels == 0).sum()) / max(1, int((labels == 0).sum()))
    return np.where(labels == 1, 1.0, of_normal)
