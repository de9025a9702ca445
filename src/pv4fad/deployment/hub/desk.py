"""The job under way at the hub: at most one; what its relay passes on, and how it ended.

A hub that was killed finds in status.json what it was doing, and goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pv4fad.deployment.exchange import JOBS, Reply, Request
from pv4fad.deployment.relay import Relay
from pv4fad.deployment.status import Journal, Status, new_status, read_status
from pv4fad.errors import ProtocolError, StoreError
from pv4fad.logs import figures
from pv4fad.metrics.catalogue import HUB_FAILED, HUB_JOBS, HUB_RUNNING, HUB_STARTED
from pv4fad.metrics.figures import Figures

_log = logging.getLogger("pv4fad.hub")


class Desk:
    """Used by one thread, except for `beat`."""

    def __init__(self, folder: Path, parties: Sequence[str], counted: Figures) -> None:
        self._folder, self._parties, self._figures = folder, tuple(parties), counted
        self._journal: Journal | None = None
        self._relay: Relay | None = None
        self._untold: set[str] = set()
        """Parties that do not know yet that the latest job is over."""
        for kind in JOBS:
            counted.note(HUB_RUNNING, kind, value=0)
            for outcome in ("finished", "failed"):
                counted.count(HUB_JOBS, kind, outcome, by=0)
        found = read_status(folder)
        failed = found is not None and found.state == "failed"
        counted.note(HUB_FAILED, value=float(failed))
        if found is not None and found.state == "running":
            _log.info("job %d (%s) goes on", found.number, found.job)
            self._begin(found, again=True)

    def status(self) -> Status | None:
        return read_status(self._folder) if self._journal is None else self._journal.status

    def start(self, job: str) -> int:
        """Begin a job; `StoreError` if one is under way."""
        before = self.status()
        if self._relay is not None and before is not None:
            raise StoreError(
                f"job {before.number} ({before.job}): is running: see pv4fad federation status"
            )
        if before is None and job == "resume":
            raise StoreError("no job was started yet")
        new = new_status(before, job)
        self._begin(new, again=False)
        return new.number

    def _begin(self, status: Status, *, again: bool) -> None:
        self._journal = Journal(self._folder, status, self._parties)
        self._relay = Relay(self._parties, status.job, status.order, self._journal, resume=again)
        self._untold = set()
        self._write(self._journal, self._journal.write)
        self._figures.note(HUB_RUNNING, status.job, value=1)
        self._figures.note(HUB_STARTED, status.job, value=status.started.timestamp())
        self._figures.note(HUB_FAILED, value=0)

    def waiting_bytes(self, party: str) -> int:
        """What a party has not acknowledged yet."""
        return 0 if self._relay is None else self._relay.waiting_bytes(party)

    def next(self, party: str) -> Request | None:
        """What to tell a party now."""
        if self._relay is not None:
            return self._relay.next(party)
        if party not in self._untold:
            return None
        self._untold.remove(party)
        return Request("")  # the session is over, and its keys are to be forgotten

    def take(self, party: str, reply: Reply) -> set[str]:
        """What a party says; returns those for whom there may be something new."""
        if self._relay is None:
            return {party} & self._untold
        try:
            woken = self._relay.take(party, reply)
            if not self._relay.is_over:
                return woken
            self._end("")
        except ProtocolError as error:
            self._end(str(error))
        return set(self._untold)

    def lost(self, party: str, reason: str) -> None:
        """A party is not connected any more."""
        if self._relay is not None:
            self._relay.lost(party, reason)

    def require_patience(self) -> None:
        """End the job if a party has been away for too long."""
        try:
            if self._relay is not None:
                self._relay.require_patience()
        except ProtocolError as error:
            self._end(str(error))

    def beat(self) -> None:
        """Write how far the job is, or how it ended if the disk was full then."""
        journal = self._journal
        if journal is not None and (self._relay is not None or journal.end_is_missing):
            self._write(journal, journal.beat)

    def _write(self, journal: Journal, write: Callable[[], None]) -> None:
        """A disk that takes nothing does not stop the relay, which needs none."""
        before = journal.problem
        try:
            write()
        except StoreError as error:
            self._figures.failed(error)
            if not before:
                _log.error("%s; it is tried again every second", error)

    def _end(self, error: str) -> None:
        if self._journal is not None:
            self._write(self._journal, partial(self._journal.finish, error))
            status = self._journal.status
            passed = figures(
                seconds=round(status.seconds, 3),
                messages=sum(one.messages for one in status.sent),
                bytes=sum(one.bytes for one in status.sent),
            )
            said = (status.number, status.job, error or "finished")
            _log.info("job %d (%s): %s", *said, extra=passed)
            self._figures.count(HUB_JOBS, status.job, "failed" if error else "finished")
            self._figures.note(HUB_RUNNING, status.job, value=0)
            self._figures.note(HUB_FAILED, value=float(bool(error)))
        self._relay, self._untold = None, set(self._parties)
