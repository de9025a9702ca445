"""Whether scores, alerts and detection stay the same over a test period.

    period        a day; where the test has more than `MOST_DAYS` of them, seven days from its first
    alert share   alerts / rows
    detection     anomalies among the alerts / anomalies, where labels are known
    PSI           population stability index of the scores of a period against those of the first
                  period: Σ (p - q)·ln(p / q) over ten bins, the deciles of the first period
    by chance     what the PSI of two samples of one distribution comes to on average, about
                  (bins - 1)·(1 / n + 1 / m): a small period has a large PSI without any change

Half a row is added to every bin, so that an empty one has a logarithm.  A score that so many rows
have that two deciles are the same has a bin of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.evaluation.measures import Interval, share_interval

MOST_DAYS = 14
N_BINS = 10
_DAY, _WEEK = 1, 7

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Period:
    """What happened in a part of the test period."""

    begin: date
    days: int
    rows: int
    alerts: int
    alert_share: Interval
    anomalies: int | None
    """None here and in `found`: there are no labels."""
    found: int | None
    detection: Interval | None
    """None also where there is nothing to find."""
    psi: float
    psi_by_chance: float
    """0 of the first period, which is compared with itself."""

    @property
    def name(self) -> str:
        """Its first day, and its last one."""
        end = self.begin + timedelta(days=self.days - 1)
        return f"{self.begin}" if self.days == 1 else f"{self.begin} to {end}"


def stability(
    times: pl.Series, scores: Floats, alerts: NDArray[np.bool_], labels: NDArray[np.int8] | None
) -> tuple[Period, ...]:
    """By day or by week, in order; periods without a row are left out."""
    day = times.dt.date().cast(pl.Int32).to_numpy().astype(np.int64)  # since 1970
    first = int(day.min())
    days = _DAY if int(day.max()) - first < MOST_DAYS else _WEEK
    number = (day - first) // days
    reference = scores[number == 0]
    periods = []
    for one in np.unique(number):
        here = number == one
        periods.append(
            _period(
                date(1970, 1, 1) + timedelta(days=first + days * int(one)),
                days,
                alerts[here],
                None if labels is None else labels[here] == 1,
                _drift(scores[here], reference) if one else (0.0, 0.0),
            )
        )
    return tuple(periods)


def population_stability(scores: Floats, reference: Floats) -> tuple[float, int]:
    """The PSI, and in how many bins."""
    edges, times = np.unique(
        np.quantile(reference, np.arange(1, N_BINS) / N_BINS), return_counts=True
    )
    edges = np.sort(np.concatenate([edges, np.nextafter(edges[times > 1], np.inf)]))
    here, there = (_shares(values, edges) for values in (scores, reference))
    return float(np.sum((here - there) * np.log(here / there))), len(edges) + 1


def _shares(values: Floats, edges: Floats) -> Floats:
    bins = np.searchsorted(edges, values, side="right")
    counts = np.bincount(bins, minlength=len(edges) + 1) + 0.5
    return np.asarray(counts / counts.sum())


def _drift(scores: Floats, reference: Floats) -> tuple[float, float]:
    psi, bins = population_stability(scores, reference)
    return psi, (bins - 1) * (1 / len(scores) + 1 / len(reference))


def _period(
    begin: date,
    days: int,
    alerts: NDArray[np.bool_],
    anomalous: NDArray[np.bool_] | None,
    drift: tuple[float, float],
) -> Period:
    n, n_alerts = len(alerts), int(alerts.sum())
    anomalies = None if anomalous is None else int(anomalous.sum())
    found = None if anomalous is None else int((alerts & anomalous).sum())
    return Period(
        begin,
        days,
        n,
        n_alerts,
        share_interval(n_alerts, n),
        anomalies,
        found,
        share_interval(found, anomalies) if found is not None and anomalies else None,
        *drift,
    )
