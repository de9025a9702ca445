"""The section on costs: seconds by phase, bytes by kind of message."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pv4fad.protocol.receipt import Receipt
from pv4fad.report.canvas import Figure
from pv4fad.report.charts import Bar, bars
from pv4fad.report.content import ReportContent
from pv4fad.report.words import size_text
from pv4fad.run.meter import PhaseCost, Traffic

_PHASES = {
    "prepare": "prepare: features, models, tables",
    "propose": "propose: parameters and keys",
    "match": "match: a shared join of accounts",
    "count": "count: shared sums, noise",
    "compare": "compare: signs of the noisy sums",
    "labels": "labels: shared by all",
    "score": "score: questions, answers",
}


def cost_figures(content: ReportContent) -> list[Figure]:
    """A timeline for training and for scoring, and the bytes of both."""
    document, scoring = content.document, content.scoring
    figures = [
        timeline("training", "Training, second by second", document.phases),
        volumes("training-bytes", "Training, by kind of message", document.traffic),
    ]
    if scoring is not None:
        figures += [
            timeline("scoring", "Scoring, second by second", scoring.phases),
            volumes("scoring-bytes", "Scoring, by kind of message", scoring.traffic),
        ]
    return figures


def timeline(name: str, title: str, phases: Sequence[PhaseCost]) -> Figure:
    """Phases one after the other; those of several banks overlap, and are shown as if not."""
    shown = [cost for cost in phases if cost.seconds > 0]
    starts = accumulate((cost.seconds for cost in shown), initial=0.0)
    rows = [
        Bar(_PHASES.get(cost.phase, cost.phase), cost.seconds, _cost(cost), start)
        for cost, start in zip(shown, starts, strict=False)
    ]
    total = sum(cost.seconds for cost in shown)
    return bars(name, title, f"seconds, {total:.0f} in all", rows)


def _cost(cost: PhaseCost) -> str:
    seconds = f"{cost.seconds:.1f} s"
    return f"{seconds}, {size_text(cost.bytes)}" if cost.bytes else seconds


def volumes(name: str, title: str, traffic: Sequence[Traffic]) -> Figure:
    """Bytes by kind and direction, the largest first; receipts are too small to matter."""
    rows = [
        Bar(
            f"{one.kind}, {_role(one.sender)} → {_role(one.receiver)}",
            one.bytes / 10**6,
            size_text(one.bytes),
        )
        for one in sorted(traffic, key=lambda one: -one.bytes)
        if one.kind != Receipt.kind
    ]
    total = size_text(sum(one.bytes for one in traffic))
    return bars(name, title, f"megabytes, {total} in all", rows)


def _role(party: str) -> str:
    return {"payment-network": "network"}.get(party, party)
