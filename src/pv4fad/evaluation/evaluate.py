"""How well one private run finds the anomalies of a test period, against the lead alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.evaluation.measures import (
    ALERT_BUDGETS,
    AtBudget,
    Curve,
    Interval,
    at_budget,
    average_precision_interval,
    precision_recall_curve,
    recall_interval,
)
from pv4fad.evaluation.scored import ALERT, LOCAL_SCORE, SCORE, ScoredTransactions

ALONE, JOINT, JOINED = "alone", "joint", "joined"
HEADINGS = {ALONE: "{lead} alone", JOINT: "with the {holders}", JOINED: "everything joined"}
"""Of the detectors, in the words of the schema."""
_SEED = 7  # of the bootstrap: the same predictions always get the same interval


@dataclass(frozen=True)
class Detector:
    """One way to rank transactions, measured."""

    name: str
    average_precision: Interval
    budgets: tuple[AtBudget, ...]
    recall: tuple[Interval, ...]
    """At each budget."""
    alerts: AtBudget | None
    """Of the private run, its own alerts; of the others, as many.  None: there are none."""
    curve: Curve = field(repr=False)


@dataclass(frozen=True)
class Evaluation:
    """All detectors on the same transactions."""

    transactions: int
    anomalies: int
    detectors: tuple[Detector, ...]

    def of(self, name: str) -> Detector | None:
        return next((detector for detector in self.detectors if detector.name == name), None)

    def to_joined(self, detector: Detector) -> float | None:
        """Its average precision to that of everything joined; None where that is not known."""
        joined = self.of(JOINED)
        if joined is None:
            return None
        return detector.average_precision.value / joined.average_precision.value

    def gap_closed(self, detector: Detector) -> float | None:
        """How far it is on the way from the lead alone (0) to everything joined (1)."""
        alone, joined = self.of(ALONE), self.of(JOINED)
        if alone is None or joined is None:
            return None
        gap = joined.average_precision.value - alone.average_precision.value
        over = detector.average_precision.value - alone.average_precision.value
        return over / gap if gap > 0 else None

    def rows(self) -> Iterator[tuple[str, tuple[AtBudget, ...]]]:
        """By number of alerts: what every detector finds."""
        for at in zip(*(detector.budgets for detector in self.detectors), strict=True):
            yield f"{_the(at[0].alerts, 'highest score')} ({at[0].share * 100:g} %)", at
        own = tuple(d.alerts for d in self.detectors if d.alerts is not None)
        if own:
            yield f"{_the(own[0].alerts, 'alert')}; alone or with all data, as many", own

    def numbers(self) -> list[dict[str, Any]]:
        """All measures of every detector, for JSON; the curves have too many points."""
        return [
            {
                "name": detector.name,
                "average_precision": asdict(detector.average_precision),
                "to_joined": self.to_joined(detector),
                "gap_closed": self.gap_closed(detector),
                "budgets": [
                    asdict(at) | {"recall_interval": asdict(interval)}
                    for at, interval in zip(detector.budgets, detector.recall, strict=True)
                ],
                "alerts": None if detector.alerts is None else asdict(detector.alerts),
            }
            for detector in self.detectors
        ]


def _the(n: int, noun: str) -> str:
    return f"the {noun}" if n == 1 else f"the {n:,} {noun}s"


def measure(
    name: str,
    labels: NDArray[np.int8],
    scores: NDArray[np.float64],
    alerts: AtBudget | None = None,
) -> Detector:
    """One detector, with bootstrap intervals over the transactions."""
    return Detector(
        name,
        average_precision_interval(labels, scores, seed=_SEED),
        tuple(at_budget(labels, scores, share) for share in ALERT_BUDGETS),
        tuple(recall_interval(labels, scores, share, seed=_SEED) for share in ALERT_BUDGETS),
        alerts,
        precision_recall_curve(labels, scores),
    )


def evaluate(
    scored: ScoredTransactions, where: Path, joined: NDArray[np.float64] | None = None
) -> Evaluation:
    """Measure what was predicted; DataError (naming `where`) if there is nothing to measure by.

    `joined`: scores of the same transactions by a model that has all data (`joined`).
    """
    labels = scored.require_labels(where)
    scores = {
        ALONE: scored.column(LOCAL_SCORE),
        JOINT: scored.column(SCORE),
        JOINED: joined,
    }
    alert = scored.column(ALERT)

    def alerts(name: str, values: NDArray[np.float64]) -> AtBudget | None:
        if alert is None or not alert.any():
            return None
        return at_budget(labels, alert if name == JOINT else values, float(alert.mean()))

    detectors = tuple(
        measure(name, labels, values, alerts(name, values))
        for name, values in scores.items()
        if values is not None
    )
    return Evaluation(len(scored), int(labels.sum()), detectors)
