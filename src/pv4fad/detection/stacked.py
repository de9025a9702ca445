"""The stacked combiner: how much a vote total tells, learnt from labelled training transactions.

The payment network has labelled transactions of training scored like new ones, and fits the noisy
or (`noisy_or`) to their labels: offset and slope of the local score, and log-odds for each *kind*
of payment on each side: its vote total, and whether its two accounts deal with each other for the
first time.  Those queries are outside the ε claim, like all scoring.

Local scores of training transactions must be out of fold: a model knows the rows it was fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_scale import LocalScale, sample_rows
from pv4fad.detection.noisy_or import Floats, NoisyOr, combine, fit
from pv4fad.errors import DataError

__all__ = ["OUTSIDE_THE_CLAIM", "LocalScale", "Stacking", "kinds", "sample_rows"]

OUTSIDE_THE_CLAIM = (
    "The stacked combiner had labelled training transactions scored.  What the payment network"
    " learns from those queries is outside the ε claim: for every account in them it learns a"
    " function of the account's flag."
)


@dataclass(frozen=True)
class Stacking:
    """A fitted regression."""

    local: LocalScale
    sides: tuple[Floats, ...] = field(repr=False)
    """For each side, log-odds by kind."""

    @classmethod
    def fit(
        cls,
        scores: NDArray[np.floating],
        kinds: NDArray[np.int64],
        labels: NDArray[np.int8],
        *,
        n_trees: int,
        all_labels: NDArray[np.int8],
    ) -> Self:
        """From the rows of `sample_rows(all_labels, ...)`; `kinds` (rows, 2), of both sides."""
        sides = (kinds[:, 0], kinds[:, 1])
        fitted = _fit(scores, sides, labels, n_kinds=2 * (n_trees + 1), all_labels=all_labels)
        return cls(LocalScale(fitted.offset, fitted.slope), fitted.by_kind)

    def probability(self, scores: NDArray[np.floating], kinds: NDArray[np.int64]) -> Floats:
        """(n,) from local scores and the kinds of both sides, (n, 2)."""
        sides = (by_kind[kind] for by_kind, kind in zip(self.sides, kinds.T, strict=True))
        return combine(self.local.log_odds(scores), *sides)

    def to_document(self) -> dict[str, Any]:
        return {
            "offset": self.local.offset,
            "slope": self.local.slope,
            "sides": [one.tolist() for one in self.sides],
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """DataError if it is damaged."""
        match document:
            case {"offset": float(offset), "slope": float(slope), "sides": [[*first], [*second]]}:
                sides = (np.array(first, np.float64), np.array(second, np.float64))
                return cls(LocalScale(offset, slope), sides)
        raise DataError("the stored regression of the stacked combiner is damaged")


def kinds(totals: NDArray[np.int64], is_first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n, 2): the vote total of each side, and whether the accounts had not dealt before."""
    return 2 * totals + is_first[:, np.newaxis]


def _fit(
    scores: NDArray[np.floating],
    kinds: tuple[NDArray[np.int64], ...],
    labels: NDArray[np.int8],
    *,
    n_kinds: int,
    all_labels: NDArray[np.int8],
) -> NoisyOr:
    n_normal = int((all_labels == 0).sum())
    n_anomalous = len(all_labels) - n_normal
    in_sample = int((labels == 0).sum())
    weights = np.where(labels == 1, 1.0, n_normal / max(1, in_sample))
    usual = float(np.log((n_anomalous + 0.5) / (n_normal + 0.5)))
    return fit(scores, kinds, labels, weights, n_kinds=n_kinds, usual=usual)
