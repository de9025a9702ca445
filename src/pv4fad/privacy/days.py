"""The day (UTC) on which a budget counts: that of the clock, and never one before the latest noted.

So a clock that is set back renews nothing.  A clock that was ahead once leaves a day in the future
behind, and nothing is renewed before it: `why_ahead` says so, and what to do
(docs/operate/runbook.md#pv4fadclockwasahead).
"""

from __future__ import annotations

from datetime import date


def counted_day(today: str, noted: str) -> str:
    """Both as YYYY-MM-DD; `noted` may be nothing."""
    return max(today, noted)


def days_ahead(today: str, noted: str) -> int:
    """How far a noted day is in the future; 0 if it is not."""
    return max(0, (date.fromisoformat(noted) - date.fromisoformat(today)).days) if noted else 0


def why_ahead(today: str, noted: str) -> str:
    """For an error or a log, after what they say; nothing if the noted day is not ahead."""
    if not days_ahead(today, noted):
        return ""
    return (
        f"; its latest day is {noted}, and by this machine's clock it is {today} (UTC). A clock was"
        f" wrong: set it right. Nothing is renewed before {noted}; the limit can be raised until"
        " then (docs/operate/runbook.md, Pv4fadClockWasAhead)"
    )
