"""The section on what was found: curves, measures, and the highest alerts with their reasons.

It shows what the payment network has: its own payments, and its alerts.  Nothing but alerts depends
on a bank, and no reason says what a bank knows about an account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from pv4fad.evaluation.evaluate import JOINED, Evaluation
from pv4fad.evaluation.scored import LOCAL_SCORE, SCORE
from pv4fad.payments.schema import LABEL
from pv4fad.report.markup import Content, Markup, join, tag
from pv4fad.report.tables import table
from pv4fad.report.words import estimate_text, found_text

_NEW_LINE = tag("br")

_Row = dict[str, Any]


def measures_table(evaluation: Evaluation) -> Markup:
    """What alerts find, with each detector."""
    detectors, anomalies = evaluation.detectors, evaluation.anomalies
    rows: list[list[Content]] = [
        [
            "average precision (95 % interval)",
            *(estimate_text(one.average_precision) for one in detectors),
        ]
    ]
    if evaluation.of(JOINED) is not None:
        gaps = (evaluation.gap_closed(one) for one in detectors)
        rows.append(["gap closed", *("-" if one is None else f"{one:.2f}" for one in gaps)])
    rows += [
        [
            f"found in {name}",
            *(f"{found_text(at, anomalies)}, precision {at.precision:.2f}" for at in found),
        ]
        for name, found in evaluation.rows()
    ]
    return table(["", *(one.name for one in detectors)], rows)


def alerts_table(alerts: pl.DataFrame) -> Markup:
    """What is not known of alerts is left out."""
    alerts = alerts.select(
        one for one in alerts if one.dtype != pl.String or one.fill_null("").ne("").any()
    )
    known = [name for name, (needed, _) in _COLUMNS.items() if needed in alerts.columns]
    rows = alerts.rows(named=True)
    return table(known, ([_COLUMNS[name][1](row) for name in known] for row in rows))


def _truth(row: _Row) -> Content:
    return tag("b", "anomaly", class_="alarm") if row[LABEL] == 1 else "normal"


def _payment(row: _Row) -> Content:
    return join(
        [
            f"{row['SettlementAmount']:,.2f} {row['SettlementCurrency']}",
            f"{row['Sender']} to {row['Receiver']}",
            str(row["Timestamp"]),
        ],
        _NEW_LINE,
    )


def _lines(column: str) -> Callable[[_Row], Content]:
    return lambda row: join(str(row[column] or "").split("; "), _NEW_LINE)


_COLUMNS: dict[str, tuple[str, Callable[[_Row], Content]]] = {
    "message": ("MessageId", lambda row: str(row["MessageId"])),
    "level": ("Level", lambda row: str(row["Level"])),
    "score": (SCORE, lambda row: f"{row[SCORE]:.3f}"),
    "without banks": (LOCAL_SCORE, lambda row: f"{row[LOCAL_SCORE]:.3f}"),
    "in truth": (LABEL, _truth),
    "payment": ("SettlementAmount", _payment),
    "reasons": ("Reasons", _lines("Reasons")),
    "unusual about it": ("Unusual", _lines("Unusual")),
}
"""Heading: the column that it needs, and the cell."""
