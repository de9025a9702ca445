"""Numbers and messages, as texts of a report."""

from __future__ import annotations

from pv4fad.evaluation.measures import AtBudget, Interval
from pv4fad.protocol.roles import BANK, role_text
from pv4fad.run.meter import Traffic
from pv4fad.words import Words


def estimate_text(interval: Interval) -> str:
    """0.52 (0.48-0.57)."""
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} ({interval.low:.2f}-{interval.high:.2f})"


def count_text(expected: float) -> str:
    """A number of things that can be an expectation: 12, or 12.4."""
    return f"{expected:,.0f}" if abs(expected - round(expected)) < 0.05 else f"{expected:,.1f}"


def found_text(at: AtBudget, anomalies: int) -> str:
    """Of the anomalies, at an alert budget."""
    return f"{count_text(at.found)} of {anomalies:,} ({at.recall * 100:.0f} %)"


def size_text(n_bytes: int) -> str:
    """Bytes as people read them."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} B"


def flow_text(flow: Traffic, words: Words) -> str:
    """From whom, to whom."""
    return f"{role_text(flow.sender, words)} → {role_text(flow.receiver, words)}"


def kind_text(kind: str, words: Words) -> str:
    """A kind of message, as in protocol.md §8; one of them names a role."""
    return kind.replace(BANK, words.holder)
