"""What another alert threshold would have given: above the line, and below it.

The line is the lowest score of an alert.  A row alerts at a multiple of it if its score reaches
that.  Scores are those of the run: at a lower line the lead would have asked about more records,
and their answers, which nobody has, would have raised some scores.  So what is found below the line
is at least this.

Whether the line is too high is seen below it: how many anomalies are there, in all rows whose label
is known, and in a random sample as somebody would look at who has no labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.evaluation.measures import Interval, share_interval

MULTIPLES = (0.5, 0.8, 1.0, 1.25, 2.0)
SAMPLE = 500
_SEED = 7  # of the sample: the same predictions always get the same one


@dataclass(frozen=True)
class AtThreshold:
    """Alerts at a multiple of the threshold."""

    multiple: float
    threshold: float
    alerts: int
    found: int | None
    """None: there are no labels."""
    precision: Interval | None
    """None also without an alert."""
    recall: Interval | None
    """None also if nothing is anomalous."""


@dataclass(frozen=True)
class Band:
    """Rows between two multiples of the threshold."""

    low: float
    high: float
    """Scores below this; `low` itself is in the band."""
    rows: int
    anomalies: int
    rate: Interval
    """Of anomalies; the whole range where there is no row."""


@dataclass(frozen=True)
class Thresholds:
    """All of it."""

    line: float
    levels: tuple[AtThreshold, ...]
    below: tuple[Band, ...]
    """Bands below the line, the nearest first; none without labels."""
    sample: Band | None
    """Of all rows below the line, drawn at random; None without labels."""


def thresholds(
    scores: NDArray[np.float64], alerts: NDArray[np.bool_], labels: NDArray[np.int8] | None
) -> Thresholds | None:
    """None if there is no line: no alert, or a row without one that has the score of one."""
    if not alerts.any():
        return None
    line = float(scores[alerts].min())
    if (scores[~alerts] >= line).any():
        return None
    anomalous = None if labels is None else labels == 1
    levels = tuple(_at(one, one * line, scores, anomalous) for one in MULTIPLES)
    if anomalous is None:
        return Thresholds(line, levels, (), None)
    ends = [one * line for one in MULTIPLES if one <= 1][::-1]
    below = tuple(
        _band(low, high, anomalous[(scores >= low) & (scores < high)])
        for high, low in zip(ends, [*ends[1:], 0.0], strict=True)
    )
    rest = np.flatnonzero(~alerts)
    drawn = np.random.default_rng(_SEED).choice(rest, min(SAMPLE, len(rest)), replace=False)
    return Thresholds(line, levels, below, _band(0.0, line, anomalous[drawn]))


def _at(
    multiple: float,
    threshold: float,
    scores: NDArray[np.float64],
    anomalous: NDArray[np.bool_] | None,
) -> AtThreshold:
    alerts = scores >= threshold
    n = int(alerts.sum())
    if anomalous is None:
        return AtThreshold(multiple, threshold, n, None, None, None)
    found, anomalies = int((alerts & anomalous).sum()), int(anomalous.sum())
    return AtThreshold(
        multiple,
        threshold,
        n,
        found,
        share_interval(found, n) if n else None,
        share_interval(found, anomalies) if anomalies else None,
    )


def _band(low: float, high: float, anomalous: NDArray[np.bool_]) -> Band:
    n, found = len(anomalous), int(anomalous.sum())
    rate = share_interval(found, n) if n else Interval(0.0, 0.0, 1.0)
    return Band(low, high, n, found, rate)
