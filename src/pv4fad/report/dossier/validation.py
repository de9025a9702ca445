"""Does the model work: how well it detects, whether that lasts, what other thresholds give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pv4fad.evaluation.evaluate import HEADINGS, Evaluation
from pv4fad.evaluation.measures import Interval
from pv4fad.evaluation.scored import ALERT, SCORE
from pv4fad.evaluation.stability import Period, stability
from pv4fad.evaluation.thresholds import Band, Thresholds, thresholds
from pv4fad.report.canvas import Figure
from pv4fad.report.charts import Bar, bars
from pv4fad.report.content import Gap, ReportContent
from pv4fad.report.texts import estimate_text

Rows = list[list[str]]

_UNKNOWN = "-"


@dataclass(frozen=True)
class Validation:
    """What there is; parts that are missing are in the gaps."""

    evaluation: Evaluation | None
    periods: tuple[Period, ...]
    thresholds: Thresholds | None
    gaps: tuple[Gap, ...]

    def numbers(self) -> dict[str, Any]:
        """For JSON."""
        found = self.evaluation
        return {
            "rows": None if found is None else found.transactions,
            "anomalies": None if found is None else found.anomalies,
            "detectors": None if found is None else found.numbers(),
            "stability": [asdict(period) for period in self.periods],
            "thresholds": None if self.thresholds is None else asdict(self.thresholds),
        }


def validation(content: ReportContent) -> Validation:
    """Of what was scored; what `content` lacks is among its own gaps."""
    table, schema = content.predictions, content.document.data_schema
    if table is None or ALERT not in table.columns:
        return Validation(content.evaluation, (), None, ())
    scores, alerts = table[SCORE].to_numpy(), table[ALERT].to_numpy() == 1
    label = schema.rows.label
    labels = table[label].to_numpy().astype(np.int8) if label in table.columns else None
    gaps: list[Gap] = []
    periods: tuple[Period, ...] = ()
    if schema.rows.time in table.columns:
        periods = stability(table[schema.rows.time], scores, alerts, labels)
    else:
        gaps.append(Gap("Stability over time", "the data is not named: give DIR after RUN"))
    lines = thresholds(scores, alerts, labels)
    if lines is None:
        why = "there is no alert, or others have the score of one, so there is no line"
        gaps.append(Gap("Above and below the line", why))
    return Validation(content.evaluation, periods, lines, tuple(gaps))


def recall_rows(evaluation: Evaluation, heading: dict[str, str]) -> Rows:
    """Detector by budget: recall with its interval."""
    return [
        [heading[detector.name], *(_percent(one) for one in detector.recall)]
        for detector in evaluation.detectors
    ]


def recall_headings(evaluation: Evaluation) -> list[str]:
    """Of `recall_rows`."""
    budgets = evaluation.detectors[0].budgets
    return ["", *(f"highest {at.alerts:,} ({at.share * 100:g} %)" for at in budgets)]


def detector_headings(content: ReportContent) -> dict[str, str]:
    """What detectors are called in this world."""
    words = content.document.data_schema.words
    return {name: words(heading) for name, heading in HEADINGS.items()}


def period_rows(periods: tuple[Period, ...]) -> Rows:
    """One line for each."""
    return [
        [
            period.name,
            f"{period.rows:,}",
            f"{period.alerts:,}",
            _percent(period.alert_share, digits=2),
            _UNKNOWN if period.found is None else f"{period.found:,} of {period.anomalies:,}",
            _UNKNOWN if period.detection is None else _percent(period.detection),
            f"{period.psi:.3f}",
            f"{period.psi_by_chance:.3f}" if number else "reference",
        ]
        for number, period in enumerate(periods)
    ]


def period_figures(periods: tuple[Period, ...]) -> list[Figure]:
    """Alert share and PSI, period by period."""
    shares = [
        Bar(one.name, 100 * one.alert_share.value, f"{100 * one.alert_share.value:.2f} %")
        for one in periods
    ]
    drift = [Bar(one.name, one.psi, f"{one.psi:.3f}") for one in periods]
    return [
        bars("alert-share", "Alerts over time", "per cent of all", shares),
        bars("psi", "Drift of the scores", "population stability index", drift),
    ]


def level_rows(lines: Thresholds) -> Rows:
    """Alerts at each multiple of the threshold."""
    return [
        [
            f"{one.multiple:g} ×",
            f"{one.threshold:.3g}",
            f"{one.alerts:,}",
            _UNKNOWN if one.found is None else f"{one.found:,}",
            _UNKNOWN if one.precision is None else estimate_text(one.precision),
            _UNKNOWN if one.recall is None else _percent(one.recall),
        ]
        for one in lines.levels
    ]


def band_rows(lines: Thresholds) -> Rows:
    """Below the line: all of it, band by band, and a sample."""
    rows = [[f"{one.low:.3g} to {one.high:.3g}", *_rate(one)] for one in lines.below]
    if lines.sample is not None:
        rows.append([f"a random sample of all below {lines.line:.3g}", *_rate(lines.sample)])
    return rows


def _rate(band: Band) -> list[str]:
    return [f"{band.rows:,}", f"{band.anomalies:,}", _percent(band.rate, digits=2)]


def _percent(share: Interval, digits: int = 0) -> str:
    value = f"{100 * share.value:.{digits}f} %"
    if share.low is None or share.high is None:
        return value
    ends = (f"{100 * end:.{digits}f}" for end in (share.low, share.high))
    return f"{value} ({'-'.join(ends)})"
