"""The section on what was found: curves, votes, and the highest alerts with their reasons.

It shows what the payment network has: its own payments and tests, and vote totals.  Nothing that a
bank knows about an account is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from pv4fad.data.schema import LABEL
from pv4fad.evaluation.evaluate import Evaluation
from pv4fad.evaluation.scored import LOCAL_SCORE, SCORE
from pv4fad.report.canvas import Figure
from pv4fad.report.charts import Panel, histogram, precision_recall
from pv4fad.report.content import ReportContent
from pv4fad.report.markup import Content, Markup, join, tag
from pv4fad.report.tables import table
from pv4fad.report.words import estimate_text, found_text
from pv4fad.runs.predictions import VOTES

_NEW_LINE = tag("br")

_Row = dict[str, Any]


def found_figures(content: ReportContent) -> list[Figure]:
    """The figures that the content allows."""
    figures = []
    if content.evaluation is not None:
        figures.append(precision_recall(content.evaluation.detectors))
    votes = _votes(content)
    if votes is not None:
        figures.append(votes)
    return figures


def measures_table(evaluation: Evaluation) -> Markup:
    """What an alert budget buys, with each detector."""
    rows: list[list[Content]] = [
        [
            "average precision (95 % interval)",
            *(estimate_text(one.average_precision) for one in evaluation.detectors),
        ]
    ]
    rows += [
        [
            f"found in the first {at.alerts:,} alerts ({at.share * 100:g} % of all)",
            *(found_text(one.budgets[k], evaluation.anomalies) for one in evaluation.detectors),
        ]
        for k, at in enumerate(evaluation.detectors[0].budgets)
    ]
    return table(["", *(one.name for one in evaluation.detectors)], rows)


def alerts_table(alerts: pl.DataFrame) -> Markup:
    """The highest scores; what is not known of them is left out."""
    # Trees that ask a bank at once have no tests of the payment network's own.
    alerts = alerts.select(
        one for one in alerts if one.dtype != pl.String or one.fill_null("").ne("").any()
    )
    known = [name for name, (needed, _) in _COLUMNS.items() if needed in alerts.columns]
    rows = alerts.rows(named=True)
    return table(known, ([_COLUMNS[name][1](row) for name in known] for row in rows), numbers=[1])


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


def _vote_kinds(row: _Row) -> Content:
    names = ("no bank asked", "ordering side", "beneficiary side")
    return join((f"{row[kind]} {name}" for kind, name in zip(VOTES, names, strict=True)), _NEW_LINE)


def _lines(column: str) -> Callable[[_Row], Content]:
    return lambda row: join(str(row[column] or "").split("; "), _NEW_LINE)


_COLUMNS: dict[str, tuple[str, Callable[[_Row], Content]]] = {
    "message": ("MessageId", lambda row: str(row["MessageId"])),
    "score": (SCORE, lambda row: f"{row[SCORE]:.3f}"),
    "without banks": (LOCAL_SCORE, lambda row: f"{expit(row[LOCAL_SCORE]):.3f}"),
    "in truth": (LABEL, _truth),
    "payment": ("SettlementAmount", _payment),
    "votes for an anomaly": (VOTES[0], _vote_kinds),
    "tests on its way": ("Reasons", _lines("Reasons")),
    "unusual about it": ("Unusual", _lines("Unusual")),
}
"""Heading: the column that it needs, and the cell."""


def _votes(content: ReportContent) -> Figure | None:
    table_ = content.predictions
    if table_ is None or not set(VOTES) <= set(table_.columns):
        return None
    votes = table_.select(pl.sum_horizontal(VOTES)).to_series().to_numpy().astype(np.int64)
    n_trees = content.document.sizes.trees
    if content.has_labels:
        labels = table_[LABEL].to_numpy()
        groups = {"normal": labels == 0, "anomalous": labels == 1}
    else:
        groups = {"all": np.ones(len(votes), np.bool_)}
    panels = [
        Panel(
            f"{name}: {int(chosen.sum()):,} transactions",
            np.bincount(votes[chosen], minlength=n_trees + 1) / max(1, int(chosen.sum())),
            series,
        )
        for series, (name, chosen) in enumerate(groups.items())
        if chosen.any()
    ]
    return histogram("votes", "Votes", f"votes for an anomaly, of {n_trees} trees", panels)
