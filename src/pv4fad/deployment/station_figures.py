"""What a station counts while it works, for whoever watches over it, and says in its log.

Time at work belongs to the phase of the message that set it off; before the first message of a
session it is `prepare`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from pv4fad.deployment.exchange import JOBS, Job, State
from pv4fad.logs import figures, working_on
from pv4fad.metrics import catalogue
from pv4fad.metrics.catalogue import Labels
from pv4fad.metrics.figures import Figures
from pv4fad.protocol.order import phase_of
from pv4fad.protocol.wire import Header

STATES: tuple[State, ...] = ("idle", "busy", "done", "failed")
_PREPARE, _OTHER = "prepare", "other"
_log = logging.getLogger("pv4fad.station")


class StationFigures(Figures):
    """Those of one station."""

    def __init__(self) -> None:
        super().__init__()
        self.announce(catalogue.LAST_MESSAGE, catalogue.WORK)
        self.announce(catalogue.MESSAGES, catalogue.MESSAGE_BYTES)
        self.count(catalogue.SESSIONS, by=0)
        self.count(catalogue.DISCONNECTIONS, by=0)

    def session(self) -> None:
        self.count(catalogue.SESSIONS)

    def sent(self, receiver: str, size_bytes: int) -> None:
        self._passed("sent", receiver, size_bytes)

    def received(self, sender: str, size_bytes: int) -> None:
        self._passed("received", sender, size_bytes)

    def _passed(self, direction: str, peer: str, size_bytes: int) -> None:
        self.count(catalogue.MESSAGES, direction, peer)
        self.count(catalogue.MESSAGE_BYTES, direction, peer, by=size_bytes)
        self.note_time(catalogue.LAST_MESSAGE, direction)


class SessionWork:
    """The work of one session; used by the thread that does it."""

    def __init__(self, counted: StationFigures, job: Job) -> None:
        self._counted, self._phase = counted, _PREPARE
        self._job = job if not job or job in JOBS else _OTHER  # the relay chooses this word
        self._seen: set[str] = set()
        self._seconds: dict[str, float] = {}
        self._began = self._since = time.monotonic()
        working_on(self._job, self._phase)
        if job:
            for kind in JOBS:
                for outcome in ("done", "failed"):
                    counted.count(catalogue.JOBS, kind, outcome, by=0)

    def pause(self) -> None:
        """It waits for the next message."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        self._counted.count(catalogue.WORK, self._phase, by=seconds)
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + seconds

    def go_on(self, message: Header) -> None:
        """With what this message sets off."""
        self._since, self._phase = time.monotonic(), _phase(message)
        working_on(self._job, self._phase)
        if self._phase not in self._seen:
            self._seen.add(self._phase)
            _log.info("phase %s begins", self._phase)

    def job_over(self, outcome: str) -> None:
        self.pause()
        self._counted.count(catalogue.JOBS, self._job, outcome)
        by_phase = {f"{phase}_s": round(s, 3) for phase, s in self._seconds.items()}
        whole = round(time.monotonic() - self._began, 3)
        extra = figures(seconds=whole, **by_phase)
        _log.info("job %s: %s after %.0f s", self._job, outcome, whole, extra=extra)


def of_state(present: State) -> Iterator[tuple[Labels, float]]:
    """1 for the present state, 0 for the others."""
    for state in STATES:
        yield (state,), float(state == present)


def _phase(message: Header) -> str:
    try:
        return phase_of(message)
    except KeyError:
        return _OTHER  # which the party will refuse
