"""Logs of commands that run for long: lines for people, or one JSON object per line.

    {"time": "2026-11-18T11:40:02.117+00:00", "level": "info", "party": "bank01",
     "from": "pv4fad.station", "job": "", "phase": "match", "event": "phase match begins",
     "figures": {"messages": 12}}

What a thread is working on (`working_on`) is part of its lines, and so are figures that a line
comes with (`figures`).  A log names no account and no payment, and holds no secret.  The words of
an error that nobody expected may be about anything; so of such an error a log has its type and
where it happened, in either format.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, Literal, get_args

from pv4fad.errors import ParameterError

Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
VARIABLE = "PV4FAD_LOG_FORMAT"
_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


@dataclass(frozen=True)
class Doing:
    """What a thread is working on."""

    job: str = ""
    phase: str = ""


_NOTHING = Doing()
_DOING: ContextVar[Doing] = ContextVar("doing", default=_NOTHING)


def working_on(job: str = "", phase: str = "") -> None:
    """From now on, in this thread."""
    _DOING.set(Doing(job, phase))


def figures(**values: float | str) -> dict[str, Any]:
    """For `extra` of a line: numbers, and names that everybody may read."""
    return {"figures": values}


class Seldom:
    """Lines about one other party: at most one in so many seconds, whatever it does, so that it
    cannot fill the disk."""

    def __init__(self, log: logging.Logger, every_s: float) -> None:
        self._log, self._every_s = log, every_s
        self._latest = -every_s

    def say(
        self,
        text: str,
        *values: object,
        level: int = logging.WARNING,
        raised: Exception | None = None,
    ) -> bool:
        """Whether it was written; of `raised` where it happened."""
        now = time.monotonic()
        if now - self._latest < self._every_s:
            return False
        self._latest = now
        self._log.log(level, text, *values, exc_info=raised)
        return True


def log_format(given: str) -> Format:
    """As a person writes it."""
    for known in FORMATS:
        if known == given:
            return known
    raise ParameterError(f"--log-format {given}: give one of {', '.join(FORMATS)}")


def write_logs(party: str, log_format: Format) -> None:
    """On standard error, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines() if log_format == "text" else _Objects(party))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


class _Lines(logging.Formatter):
    """For people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        # What another party said may have lines that look like ours.
        return super().format(record).replace("\r", " ").replace("\n", "; ")

    def formatException(self, ei: _Raised) -> str:  # noqa: N802  as `logging` spells it
        return _where(ei[1])


class _Objects(logging.Formatter):
    """For programs."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        doing = _DOING.get()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "party": self._party,
            "from": record.name,
            "job": doing.job,
            "phase": doing.phase,
            "event": record.getMessage(),
        }
        if hasattr(record, "figures"):
            line["figures"] = record.figures
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _where(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def _where(error: BaseException | None) -> str:
    """The types of an error and of those that led to it, and where each happened."""
    parts = []
    while error is not None:
        steps = [
            f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
            for frame, line in walk_tb(error.__traceback__)
        ]
        parts.append(f"{type(error).__name__} at {', '.join(steps) or 'an unknown place'}")
        error = error.__cause__ or error.__context__
    return "; because of ".join(parts)
