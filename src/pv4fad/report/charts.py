"""The kinds of figures: curves of detectors, bars below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pv4fad.evaluation.evaluate import ALONE, JOINED, JOINT, Detector
from pv4fad.evaluation.measures import Curve
from pv4fad.report.canvas import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Scale,
    columns_of_grid,
    label,
    rows_of_grid,
    ticks,
)
from pv4fad.report.markup import Markup, join, tag
from pv4fad.report.words import count_text, estimate_text

_QUARTERS = (0, 0.25, 0.5, 0.75, 1)
_CURVE_POINTS = 250
_SERIES = {JOINT: 0, ALONE: 1, JOINED: 2}
_SLIVER = 1.5  # what is there must show, however little


@dataclass(frozen=True)
class Bar:
    """One bar: where it begins, how long it is, and its value as it is written."""

    label: str
    value: float
    said: str
    start: float = 0.0


def precision_recall(detectors: Sequence[Detector]) -> Figure:
    """A step curve for each detector, with a dot at every alert budget."""
    top, bottom = 34.0 + 16 * len(detectors), 300.0
    x, y = Scale(1, LEFT, RIGHT), Scale(1, bottom, top)
    parts = [rows_of_grid(y, _QUARTERS), columns_of_grid(x, _QUARTERS, top, bottom)]
    for number, one in enumerate(detectors):
        said = f"{one.name}: {estimate_text(one.average_precision)}"
        series = _SERIES[one.name]
        parts += [
            tag("path", d=f"M{LEFT} {12 + 16 * number}h24", class_=f"line s{series}"),
            label(LEFT + 30, 16 + 16 * number, said),
            tag("path", d=_steps(one.curve, x, y), class_=f"line s{series}"),
            _dots(one, x, y, series),
        ]
    parts += [
        label(RIGHT, bottom + 32, "recall: share of the anomalies found", "end"),
        label(4, top - 12, "precision"),
        label(RIGHT, top - 12, "above: average precision, 95 % interval", "end", "tick"),
    ]
    words = "; ".join(
        f"{one.name}: average precision {estimate_text(one.average_precision)}, "
        + ", ".join(f"{at.recall:.0%} found at {at.share:.2%} alerts" for at in one.budgets)
        for one in detectors
    )
    return Figure("precision-recall", "Precision and recall", f"{words}.", 340, join(parts))


def bars(name: str, title: str, x_title: str, rows: Sequence[Bar]) -> Figure:
    """Horizontal bars, each with its label above it."""
    pitch, bottom = 34, 8.0 + 34 * len(rows)
    marks = ticks(max((row.start + row.value for row in rows), default=0))
    x = Scale(marks[-1], 4, RIGHT - 10)
    parts = [columns_of_grid(x, marks, 6, bottom)]
    for number, row in enumerate(rows):
        base = 18 + pitch * number
        begin, end = x(row.start), x(row.start + row.value)
        parts += [
            label(4, base, row.label),
            label(WIDTH - 4, base, row.said, "end", "value"),
            tag(
                "rect",
                tag("title", f"{row.label}: {row.said}"),
                x=begin,
                y=base + 5,
                width=max(round(end - begin, 1), _SLIVER),
                height=9,
                class_="bar s0",
            ),
        ]
    parts.append(label(RIGHT / 2, bottom + 32, x_title, "middle"))
    words = ", ".join(f"{row.label}: {row.said}" for row in rows)
    return Figure(name, title, f"{x_title}. {words}.", bottom + 40, join(parts))


def _steps(curve: Curve, x: Scale, y: Scale) -> str:
    # Only thresholds that find something move the steps.
    rises = np.flatnonzero(np.diff(curve.recall, prepend=0) > 0)
    if len(rises) > _CURVE_POINTS:
        rises = rises[np.linspace(0, len(rises) - 1, _CURVE_POINTS).round().astype(int)]
    path = f"M{x(0)} {y(curve.precision[rises[0]])}"
    return path + "".join(f"V{y(curve.precision[k])}H{x(curve.recall[k])}" for k in rises)


def _dots(detector: Detector, x: Scale, y: Scale, series: int) -> Markup:
    return join(
        tag(
            "circle",
            tag("title", f"{detector.name}: {at.alerts:,} alerts, {count_text(at.found)} found"),
            cx=x(at.recall),
            cy=y(at.precision),
            r=4,
            class_=f"dot s{series}",
        )
        for at in detector.budgets
    )
