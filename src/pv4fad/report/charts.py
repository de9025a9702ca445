"""The figures of a report: precision and recall, seconds by phase, bytes by kind of message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from pv4fad.evaluation.evaluate import ALONE, HEADINGS, JOINED, JOINT, Detector
from pv4fad.evaluation.measures import Curve
from pv4fad.protocol.receipt import Receipt
from pv4fad.report.canvas import (
    LEFT,
    RIGHT,
    WIDTH,
    Box,
    Dot,
    Figure,
    Label,
    Line,
    Scale,
    Shape,
    columns_of_grid,
    rows_of_grid,
    ticks,
)
from pv4fad.report.content import ReportContent
from pv4fad.report.texts import count_text, estimate_text, flow_text, kind_text, size_text
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.words import Words

_QUARTERS = (0, 0.25, 0.5, 0.75, 1)
_CURVE_POINTS = 250
_SERIES = {JOINT: 0, ALONE: 1, JOINED: 2}
_SLIVER = 1.5  # what is there must show, however little
_PHASES = {
    "prepare": "prepare: features, models, tables",
    "propose": "propose: parameters and keys",
    "match": "match: a shared join of {records}",
    "count": "count: shared sums, noise",
    "compare": "compare: signs of the noisy sums",
    "labels": "labels: shared by all",
    "score": "score: questions, answers",
}


@dataclass(frozen=True)
class Bar:
    """One bar: where it begins, how long it is, and its value as it is written."""

    label: str
    value: float
    value_text: str
    start: float = 0.0


def precision_recall(detectors: Sequence[Detector], words: Words) -> Figure:
    """A step curve for each detector, with a dot at every alert budget."""
    names = {detector.name: words(HEADINGS[detector.name]) for detector in detectors}
    top, bottom = 34.0 + 16 * len(detectors), 300.0
    x, y = Scale(1, LEFT, RIGHT), Scale(1, bottom, top)
    shapes = [*rows_of_grid(y, _QUARTERS), *columns_of_grid(x, _QUARTERS, top, bottom)]
    for number, detector in enumerate(detectors):
        legend = f"{names[detector.name]}: {estimate_text(detector.average_precision)}"
        kind = f"line s{_SERIES[detector.name]}"
        shapes += [
            Line(f"M{LEFT} {12 + 16 * number}h24", kind),
            Label(LEFT + 30, 16 + 16 * number, legend),
            Line(_steps(detector.curve, x, y), kind),
            *_dots(detector, names[detector.name], x, y),
        ]
    shapes += [
        Label(RIGHT, bottom + 32, "recall: share of the anomalies found", "end"),
        Label(4, top - 12, "precision"),
        Label(RIGHT, top - 12, "above: average precision, 95 % interval", "end", "tick"),
    ]
    description = "; ".join(
        f"{names[detector.name]}: average precision {estimate_text(detector.average_precision)}, "
        + ", ".join(f"{at.recall:.0%} found at {at.share:.2%} alerts" for at in detector.budgets)
        for detector in detectors
    )
    title = "Precision and recall"
    return Figure("precision-recall", title, f"{description}.", 340, tuple(shapes))


def cost_figures(content: ReportContent) -> list[Figure]:
    """A timeline for training and for scoring, and the bytes of both."""
    document, scoring = content.document, content.scoring
    words = document.data_schema.words
    figures = [
        timeline("training", "Training, second by second", document.phases, words),
        volumes("training-bytes", "Training, by kind of message", document.traffic, words),
    ]
    if scoring is not None:
        figures += [
            timeline("scoring", "Scoring, second by second", scoring.phases, words),
            volumes("scoring-bytes", "Scoring, by kind of message", scoring.traffic, words),
        ]
    return figures


def timeline(name: str, title: str, phases: Sequence[PhaseCost], words: Words) -> Figure:
    """Phases one after the other; those of several holders overlap, and are shown as if not."""
    shown = [cost for cost in phases if cost.seconds > 0]
    starts = accumulate((cost.seconds for cost in shown), initial=0.0)
    rows = [
        Bar(words(_PHASES.get(cost.phase, cost.phase)), cost.seconds, _cost(cost), start)
        for cost, start in zip(shown, starts, strict=False)
    ]
    total = sum(cost.seconds for cost in shown)
    return bars(name, title, f"seconds, {total:.0f} in all", rows)


def volumes(name: str, title: str, traffic: Sequence[Traffic], words: Words) -> Figure:
    """Bytes by kind and direction, the largest first; receipts are too small to matter."""
    rows = [
        Bar(
            f"{kind_text(flow.kind, words)}, {flow_text(flow, words)}",
            flow.bytes / 10**6,
            size_text(flow.bytes),
        )
        for flow in sorted(traffic, key=lambda flow: -flow.bytes)
        if flow.kind != Receipt.kind
    ]
    total = size_text(sum(flow.bytes for flow in traffic))
    return bars(name, title, f"megabytes, {total} in all", rows)


def bars(name: str, title: str, x_title: str, rows: Sequence[Bar]) -> Figure:
    """Horizontal bars, each with its label above it."""
    pitch, bottom = 34, 8.0 + 34 * len(rows)
    marks = ticks(max((row.start + row.value for row in rows), default=0))
    x = Scale(marks[-1], 4, RIGHT - 10)
    shapes = columns_of_grid(x, marks, 6, bottom)
    for number, row in enumerate(rows):
        base = 18 + pitch * number
        begin, end = x(row.start), x(row.start + row.value)
        width = max(round(end - begin, 1), _SLIVER) if row.value else 0
        shapes += [
            Label(4, base, row.label),
            Label(WIDTH - 4, base, row.value_text, "end", "value"),
            Box(begin, base + 5, width, 9, f"{row.label}: {row.value_text}", "bar s0"),
        ]
    shapes.append(Label(RIGHT / 2, bottom + 32, x_title, "middle"))
    description = ", ".join(f"{row.label}: {row.value_text}" for row in rows)
    return Figure(name, title, f"{x_title}. {description}.", bottom + 40, tuple(shapes))


def _cost(cost: PhaseCost) -> str:
    seconds = f"{cost.seconds:.1f} s"
    return f"{seconds}, {size_text(cost.bytes)}" if cost.bytes else seconds


def _steps(curve: Curve, x: Scale, y: Scale) -> str:
    # Only thresholds that find something move the steps.
    rises = np.flatnonzero(np.diff(curve.recall, prepend=0) > 0)
    if len(rises) > _CURVE_POINTS:
        rises = rises[np.linspace(0, len(rises) - 1, _CURVE_POINTS).round().astype(int)]
    path = f"M{x(0)} {y(curve.precision[rises[0]])}"
    return path + "".join(f"V{y(curve.precision[k])}H{x(curve.recall[k])}" for k in rises)


def _dots(detector: Detector, name: str, x: Scale, y: Scale) -> list[Shape]:
    kind = f"dot s{_SERIES[detector.name]}"
    titles = (
        f"{name}: {at.alerts:,} alerts, {count_text(at.found)} found" for at in detector.budgets
    )
    return [
        Dot(x(at.recall), y(at.precision), 4, title, kind)
        for at, title in zip(detector.budgets, titles, strict=True)
    ]
