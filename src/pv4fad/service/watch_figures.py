"""The page about how the service is doing: figures in numbers and drawings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pv4fad.detection.histograms import MUCH, SOME
from pv4fad.report.canvas import (
    LEFT,
    RIGHT,
    Box,
    Figure,
    Label,
    Line,
    Scale,
    Shape,
    rows_of_grid,
    ticks,
)
from pv4fad.report.charts import Bar, bars
from pv4fad.service.decisions import HOWS
from pv4fad.service.watch import LATENCY_S, LEAST, Minute, Watch

HOUR = 60
_TOP, _BOTTOM = 24.0, 200.0
_MOST_FEATURES = 12


def watch_page(watch: Watch) -> dict[str, Any]:
    """The values of `watch.html`."""
    hour, drift = watch.over(HOUR), watch.drift()
    figures = [_rates(watch.minutes(HOUR)), _latency(hour)]
    if hour.payments:
        figures += [_how(hour), _levels(hour)]
    if drift.features:
        figures.append(_drift(drift.features))
    return {
        "cards": _cards(hour, drift.score),
        "figures": figures,
        "banks": watch.banks(),
        "drift": drift,
        "least": LEAST,
        "some": SOME,
        "much": MUCH,
    }


def quantile_text(latency: Any, share: float) -> str:
    """The end of the bin in which this share of the answers has come."""
    total = int(latency.sum())
    if not total:
        return "none yet"
    number = int(np.searchsorted(np.cumsum(latency), share * total))
    return f"≤ {_seconds(LATENCY_S[number])}" if number < len(LATENCY_S) else "> 10 s"


def _cards(hour: Minute, score_drift: float | None) -> list[tuple[str, str, str]]:
    n = hour.payments
    alerts = hour.levels.total()
    local = n - hour.decided["banks asked"]
    return [
        ("payments, last hour", f"{n:,}", f"{n / 3600:.2f} a second on average"),
        (
            "answered",
            quantile_text(hour.latency, 0.5),
            f"half of them; 99 %: {quantile_text(hour.latency, 0.99)}",
        ),
        ("alerts, last hour", f"{alerts:,}", f"{_share(alerts, n)} of the payments"),
        ("decided without banks", _share(local, n), f"{local:,} payments"),
        ("refused", f"{hour.refused:,}", "too many at a time"),
        (
            "drift of the score",
            "not known yet" if score_drift is None else f"{score_drift:.2f}",
            f"of the last day; above {MUCH} train again",
        ),
    ]


def _rates(minutes: list[Minute]) -> Figure:
    counts = [minute.payments for minute in minutes]
    marks = ticks(max(counts))
    y, step = Scale(marks[-1], _BOTTOM, _TOP), (RIGHT - LEFT) / len(counts)
    shapes = rows_of_grid(y, marks)
    for number, count in enumerate(counts):
        if count:
            x, top = LEFT + number * step, y(count)
            title = f"{len(counts) - 1 - number} min ago: {count:,}"
            shapes.append(
                Box(
                    round(x, 1), top, round(step * 0.8, 1), round(_BOTTOM - top, 1), title, "bar s0"
                )
            )
    shapes += _axis("60 min ago", "now")
    words = f"Payments in each of the last {len(counts)} minutes: {sum(counts):,} in all."
    return Figure("rates", "Payments by minute", words, _BOTTOM + 30, tuple(shapes))


def _latency(hour: Minute) -> Figure:
    counts = hour.latency.tolist()
    marks = ticks(max(counts))
    y, step = Scale(marks[-1], _BOTTOM, _TOP), (RIGHT - LEFT) / len(counts)
    shapes = rows_of_grid(y, marks)
    names = [*map(_seconds, LATENCY_S), "more"]
    for number, (count, name) in enumerate(zip(counts, names, strict=True)):
        x = LEFT + number * step
        if count:
            title = f"up to {name}: {count:,}"
            top = y(count)
            shapes.append(
                Box(
                    round(x, 1), top, round(step * 0.8, 1), round(_BOTTOM - top, 1), title, "bar s0"
                )
            )
        if number % 3 == 0:
            shapes.append(Label(round(x + step * 0.4, 1), _BOTTOM + 14, name, "middle", "tick"))
    shapes.append(Line(f"M{LEFT} {_BOTTOM}H{RIGHT}", "grid"))
    shapes.append(Label(RIGHT, 14, "answers of the last hour, by the time at most", "end", "tick"))
    words = ", ".join(f"{name}: {n:,}" for name, n in zip(names, counts, strict=True) if n)
    return Figure("latency", "Time until the answer", words or "None.", _BOTTOM + 30, tuple(shapes))


def _how(hour: Minute) -> Figure:
    rows = [
        Bar(
            how,
            hour.decided[how],
            f"{hour.decided[how]:,} ({_share(hour.decided[how], hour.payments)})",
        )
        for how in HOWS
    ]
    return bars("how", "How payments were decided", "payments of the last hour", rows)


def _levels(hour: Minute) -> Figure:
    rows = [
        Bar(
            f"level {level}",
            hour.levels[level],
            f"{hour.levels[level]:,} ({_share(hour.levels[level], hour.payments)})",
        )
        for level in (1, 2, 3)
    ]
    return bars("levels", "Alerts by level", "alerts of the last hour", rows)


def _drift(features: dict[str, float]) -> Figure:
    rows = [
        Bar(name, value, f"{value:.3f}{_judged(value)}")
        for name, value in list(features.items())[:_MOST_FEATURES]
    ]
    title = "Features that have changed most"
    return bars("drift", title, "population stability index, last day against training", rows)


def _judged(value: float) -> str:
    return " much" if value >= MUCH else " some" if value >= SOME else ""


def _axis(left: str, right: str) -> list[Shape]:
    return [
        Line(f"M{LEFT} {_BOTTOM}H{RIGHT}", "grid"),
        Label(LEFT, _BOTTOM + 14, left, "start", "tick"),
        Label(RIGHT, _BOTTOM + 14, right, "end", "tick"),
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.0f} s"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
